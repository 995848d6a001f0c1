"""A fitted model for other programs: vectors in files and vector stores, the decoder as ONNX."""
