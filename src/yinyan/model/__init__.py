"""The model: operators, ENERGY, LAYER, encoder, decoder, scores, calibration, explanation. No training in here."""
