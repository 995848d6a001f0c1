"""The report and its figures."""

from __future__ import annotations

import dataclasses
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from yinyan.errors import InputError, MissingExtraError, StoreError
from yinyan.figures import precision_recall_curve, reliability_bins, reliability_figure, roc_curve
from yinyan.metrics import average_precision, roc_auc
from yinyan.report import ReportContent, write_report

HOSTILE = "<script>alert(1)</script>\"'&\n\x00\ud800 \U0001f98a </td>"

SECTIONS = {  # heading, and the fields that bring it
    "Result": {"metrics": {"hits@100": 0.87, "mrr": 0.31}},
    "Beside its peers": {"metrics": {"mrr": 0.31}, "peers": {"cn": {"mrr": 0.2}}},
    "Facts": {"facts": {"nodes": "2,708"}},
    "Guessed, merged or chosen": {"notes": ["Two links were merged."]},
    "Settings": {"settings": {"encoder": {"num_steps": 4}}},
}
DRAWN = {
    "Map of the nodes": {"points": [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], "links": [[0, 1]]},
    "Scores": {"positive_scores": [2.0, 3.0], "negative_scores": [0.0, 1.0]},
    "Are the probabilities right?": {
        "positive_probabilities": [0.9, 0.6],
        "negative_probabilities": [0.1, 0.6],
        "base_rate": 0.3,
    },
    "Loss": {"history": [{"epoch": 1, "loss": 0.7}, {"epoch": 2, "loss": 0.5}]},
    "Validation": {
        "history": [{"epoch": 1, "hits": 0.5, "auc": 0.6}, {"epoch": 2, "hits": None}],
        "best_epoch": 1,
    },
    "Repulsion": {"history": [{"epoch": 1, "repulsion": 0.1}, {"epoch": 2, "repulsion": 0.2}]},
    "Energy over the layers": {"energy": [3.0, 2.0, 1.5]},
}


def page(tmp_path, **fields) -> str:
    write_report(tmp_path / "report.html", ReportContent("A title", **fields))
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def headings(text: str) -> list[str]:
    return re.findall(r"<h[123]>(.*?)</h[123]>", text)


def full_content(num_nodes: int = 300) -> ReportContent:
    pytest.importorskip("matplotlib")
    generator = np.random.default_rng(0)
    fields = {name: value for part in (SECTIONS | DRAWN).values() for name, value in part.items()}
    fields |= {
        "positive_scores": generator.normal(2, 1, 4000),
        "negative_scores": generator.normal(0, 1, 9000),
        "points": generator.standard_normal((num_nodes, 2)),
        "point_labels": generator.integers(0, 12, num_nodes),
        "links": generator.integers(0, num_nodes, (2 * num_nodes, 2)),
        "predicted": generator.integers(0, num_nodes, (40, 2)),
        "recommendations": [(f"u{i}", f"v{i}", 3.0 - i / 40, 0.9) for i in range(40)],
        "history": [{"epoch": i, "loss": 1 / i, "hits": 0.5, "mrr": 0.1, "auc": 0.5} for i in range(1, 9)],
    }
    return ReportContent("Everything", "all sections", **fields)


class Outline(HTMLParser):
    """Tags with their attributes, and whether all were closed."""

    void = frozenset({"meta", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_title_alone_makes_a_page(tmp_path):
    text = page(tmp_path)
    assert headings(text) == ["A title"]
    assert "<section" not in text
    assert '<html lang="en">' in text


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_section_comes_with_its_data(tmp_path, heading):
    assert heading in headings(page(tmp_path, **SECTIONS[heading]))
    assert heading not in headings(page(tmp_path))


@pytest.mark.parametrize("heading", DRAWN)
def test_a_figure_comes_with_its_data(tmp_path, heading):
    pytest.importorskip("matplotlib")
    assert heading in headings(page(tmp_path, **DRAWN[heading]))


@pytest.mark.parametrize(
    "fields",
    [
        {"positive_scores": [1.0]},
        {"positive_scores": [1.0], "negative_scores": []},
        {"negative_probabilities": [0.1], "base_rate": 0.5},
        {"history": [{"epoch": 1}]},
        {"history": [{"epoch": 1, "repulsion": 0.1}]},
        {"energy": [1.0]},
        {"settings": {"encoder": {}}},
        {"points": np.zeros((0, 2))},
        {"best_epoch": 3},
    ],
)
def test_half_given_data_make_no_section(tmp_path, fields):
    assert "<section" not in page(tmp_path, **fields)


def test_recommendations_make_a_table_without_a_map(tmp_path):
    text = page(tmp_path, recommendations=[("a", 7, 2.5, None), ("b", "007", 1.0, None)])
    assert "Recommended links" in headings(text)
    assert "probability" not in text
    assert "<bdi>a</bdi></td><td><bdi>7</bdi></td><td>2.50</td>" in text


def test_long_lists_say_how_long_they_are(tmp_path):
    text = page(tmp_path, recommendations=[(i, i, 0.0, 0.25) for i in range(1234)])
    assert text.count("25.0\N{NO-BREAK SPACE}%") == 100
    assert "The first 100 of 1,234" in text


def test_the_comparison_marks_the_best_of_each_column(tmp_path):
    text = page(
        tmp_path,
        metrics={"mrr": 0.31, "auc": 0.9004, "brier": 0.2},
        peers={"cn": {"mrr": 0.4, "auc": 0.90041}, "mlp": {"mrr": float("nan"), "brier": 0.1}},
        protocol="80 / 10 / 10 <random>",
    )
    rows = dict(re.findall(r"<bdi>(\w+)</bdi></th>(.*?)</tr>", text))
    cells = {name: re.findall(r"<td>(.*?)</td>", row) for name, row in rows.items()}
    assert cells["yinyan"] == ["0.310", "<strong>0.900</strong>", "0.200"]
    assert cells["cn"] == ["<strong>0.400</strong>", "<strong>0.900</strong>", "–"]
    assert cells["mlp"] == ["–", "–", "<strong>0.100</strong>"]
    assert "Protocol: 80 / 10 / 10 &lt;random&gt;." in text
    assert "lower is better" in text
    assert "yinyan leads, alone or level, on 1 of 3 metrics." in text


def test_the_protocol_may_come_from_the_facts(tmp_path):
    text = page(tmp_path, metrics={"mrr": 0.3}, peers={"cn": {"mrr": 0.2}}, facts={"protocol": "temporal"})
    assert "Protocol: temporal." in text


def test_texts_cannot_become_markup(tmp_path):
    pytest.importorskip("matplotlib")
    content = ReportContent(
        title=HOSTILE,
        subtitle=HOSTILE,
        generated=HOSTILE,
        name=HOSTILE,
        protocol=HOSTILE,
        facts={HOSTILE: HOSTILE},
        notes=[HOSTILE],
        metrics={HOSTILE: 0.5},
        peers={HOSTILE + "2": {HOSTILE: 0.4}},
        recommendations=[(HOSTILE, HOSTILE, 1.0, 0.5)],
        settings={HOSTILE: {HOSTILE: HOSTILE}},
    )
    write_report(tmp_path / "report.html", content)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    outline = Outline(text)
    assert not outline.open
    assert "script" not in {tag for tag, _ in outline.tags}
    assert "\x00" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;\n\ufffd\ufffd \U0001f98a") >= 14


def test_the_page_needs_nothing_else(tmp_path):
    write_report(tmp_path / "report.html", full_content())
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    outline = Outline(text)
    assert not outline.open
    addresses = set(re.findall(r"https?://[^\s\"']+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not {"script", "link", "iframe", "base"} & {tag for tag, _ in outline.tags}
    for _, attributes in outline.tags:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    assert "@import" not in text and not re.search(r"url\((?!#)", text)


def test_every_figure_has_its_own_ids_and_a_reading(tmp_path):
    write_report(tmp_path / "report.html", full_content())
    tags = Outline((tmp_path / "report.html").read_text(encoding="utf-8")).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids)) > 0
    drawings = [attributes for tag, attributes in tags if tag == "svg" and "aria-hidden" not in attributes]
    assert len(drawings) == 8
    assert all(drawing["role"] == "img" and len(drawing["aria-label"]) > 30 for drawing in drawings)
    assert sum(tag == "figcaption" for tag, _ in tags) == len(drawings)
    known = {f"#{name}" for name in ids}
    assert all(attributes["xlink:href"] in known for tag, attributes in tags if tag == "use")


def test_headings_descend_one_level_at_a_time(tmp_path):
    write_report(tmp_path / "report.html", full_content())
    tags = Outline((tmp_path / "report.html").read_text(encoding="utf-8")).tags
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))


def test_colours_follow_the_page(tmp_path):
    write_report(tmp_path / "report.html", full_content())
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert "var(--true, #0b6cae)" in text
    assert not re.search(r"#(010203|040506|070809|0a0b0c|0d0e0f|101112|131415)", text)
    assert not re.search(r"(fill|stroke): #000000", text)


def test_the_same_content_gives_the_same_bytes(tmp_path):
    content = full_content(4000)
    for name in ("one.html", "two.html"):
        write_report(tmp_path / name, content)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_a_large_map_becomes_an_image_and_the_file_stays_small(tmp_path):
    write_report(tmp_path / "small.html", full_content(3000))
    write_report(tmp_path / "large.html", full_content(60_000))
    assert "data:image/png" not in (tmp_path / "small.html").read_text(encoding="utf-8")
    assert "data:image/png" in (tmp_path / "large.html").read_text(encoding="utf-8")
    assert (tmp_path / "large.html").stat().st_size < 2_000_000


def test_settings_of_matplotlib_do_not_leak_in_or_out(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    content = ReportContent("t", energy=[2.0, 1.0])
    write_report(tmp_path / "plain.html", content)
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30.0, "svg.hashsalt": "mine"}):
        write_report(tmp_path / "red.html", content)
        assert matplotlib.rcParams["svg.hashsalt"] == "mine"
    assert (tmp_path / "plain.html").read_bytes() == (tmp_path / "red.html").read_bytes()


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'yinyan\[plots\]'"):
        page(tmp_path, energy=[2.0, 1.0])
    assert list(tmp_path.iterdir()) == []
    assert "Result" in headings(page(tmp_path, metrics={"mrr": 0.5}))  # tables need no figures


def test_a_failed_write_leaves_the_old_page(tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(StoreError, match=r"report\.html.*free some space"):
        write_report(target, ReportContent("new"))
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StoreError, match="its folder does not exist"):
        write_report(tmp_path / "nowhere" / "report.html", ReportContent("t"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"points": [[0.0, 1.0, 2.0]]}, r"'points' needs finite numbers of shape \(n, 2\)"),
        ({"points": [[0.0, np.nan]]}, "'points' needs finite"),
        ({"points": [[0.0, 1.0]], "links": [[0, 1]]}, "'links' needs pairs of rows"),
        ({"points": [[0.0, 1.0]], "predicted": [[-1, 0]]}, "'predicted' needs pairs of rows"),
        ({"points": [[0.0, 1.0]], "point_labels": [1, 2]}, "'point_labels' needs 1 label"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        ReportContent("t", **fields)


def test_content_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ReportContent("t").title = "u"


@pytest.mark.parametrize(
    ("positive", "negative", "roc", "precision"),
    [
        ([3.0, 2.0], [1.0, 0.0], 1.0, 1.0),
        ([0.0, 1.0], [2.0, 3.0], 0.0, 5 / 12),  # precisions 1/3 and 2/4
        ([1.0, 1.0], [1.0, 1.0], 0.5, 0.5),  # one tie: chance, not luck
        ([2.0, 1.0], [1.0, 0.0], 0.875, 0.5 * 1 + 0.5 * 2 / 3),
        ([1e9], [-1e9], 1.0, 1.0),
        ([0.8, 0.4], [0.6, 0.2], 0.75, 0.5 * 1 + 0.5 * 2 / 3),
    ],
)
def test_areas_are_known_literals(positive, negative, roc, precision):
    fpr, tpr, area = roc_curve(positive, negative)
    assert area == pytest.approx(roc)
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    recall, _, area = precision_recall_curve(positive, negative)
    assert area == pytest.approx(precision)
    assert (recall[0], recall[-1]) == (0, 1)


def test_areas_agree_with_the_metrics():
    generator = np.random.default_rng(0)
    positive, negative = generator.integers(2, 9, 200) / 4, generator.integers(0, 7, 500) / 4  # many ties
    assert roc_curve(positive, negative)[2] == pytest.approx(roc_auc(positive, negative))
    assert precision_recall_curve(positive, negative)[2] == pytest.approx(average_precision(positive, negative))


@pytest.mark.parametrize("curve", [roc_curve, precision_recall_curve])
@pytest.mark.parametrize("positive", [[], [np.nan, 1.0]])
def test_curves_need_scores(curve, positive):
    with pytest.raises(InputError, match="none of them NaN"):
        curve(positive, [0.0])


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (1.0, 9.0), (0.3, 30.0)])
def test_calibrated_probabilities_lie_on_the_diagonal(alpha, beta):
    generator = np.random.default_rng(0)
    probability = generator.beta(alpha, beta, 400_000)
    is_link = generator.random(probability.size) < probability
    negative = probability[~is_link][::5]  # fewer non-links than there are: the base rate makes up for it
    bins = reliability_bins(probability[is_link], negative, base_rate=float(is_link.mean()))
    sure = bins.high - bins.low < 0.05
    assert sure.sum() >= 4
    assert np.abs(bins.observed - bins.predicted)[sure].max() < 0.02
    assert ((bins.low <= bins.predicted) & (bins.predicted <= bins.high)).mean() >= 0.7
    assert bins.counts.sum() == is_link.sum() + negative.size
    assert bins.on_odds == (is_link.mean() < 0.05)


def test_overconfidence_lies_off_the_diagonal():
    bins = reliability_bins([0.95] * 50, [0.95] * 50)
    assert bins.observed.tolist() == [0.5]
    assert bins.predicted.tolist() == pytest.approx([0.95])
    assert (bins.low[0], bins.high[0]) == pytest.approx((0.4038, 0.5962), abs=1e-4)  # Wilson, 50 of 100


def test_the_base_rate_weighs_the_non_links():
    bins = reliability_bins([0.5] * 10, [0.5] * 10, base_rate=0.1)
    assert bins.observed.tolist() == pytest.approx([0.1])


@pytest.mark.parametrize("base_rate", [0.0, 1.0, -0.1])
def test_an_impossible_base_rate_is_refused(base_rate):
    with pytest.raises(InputError, match="'base_rate' needs to lie between 0 and 1"):
        reliability_bins([0.5], [0.5], base_rate=base_rate)


@pytest.mark.parametrize("probabilities", [[], [1.1], [-0.1], [np.nan]])
def test_what_is_no_probability_is_refused(probabilities):
    with pytest.raises(InputError, match="between 0 and 1"):
        reliability_bins(probabilities, [0.5])


@pytest.mark.parametrize("base_rate", [1e-6, 0.01, 0.5])
def test_certain_probabilities_are_drawn(base_rate):
    pytest.importorskip("matplotlib")
    svg = reliability_figure(reliability_bins([1.0, 1.0], [0.0, 0.0], base_rate=base_rate), label="sure")
    assert "nan" not in svg and "inf" not in svg


@pytest.mark.parametrize(
    "fields",
    [
        {"positive_scores": [1.0], "negative_scores": [1.0]},
        {"positive_scores": [np.inf, 1.0], "negative_scores": [-np.inf]},
        {"positive_scores": [np.inf], "negative_scores": [-np.inf]},
        {"points": [[0.0, 0.0]]},
        {"points": [[5.0, 5.0]] * 4, "predicted": [[0, 1]] * 30},
        {"points": [[0.0, 0.0], [1.0, 0.0]], "predicted": [[0, 1]]},
        {"history": [{"epoch": 1, "loss": float("nan"), "auc": 0.5}], "best_epoch": 1},
        {"history": [{"loss": 1.0}]},
        {"energy": [1.0, float("inf"), 2.0]},
    ],
)
def test_extremes_are_drawn(tmp_path, fields):
    pytest.importorskip("matplotlib")
    assert "<figure" in page(tmp_path, **fields)
