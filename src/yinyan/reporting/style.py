"""The page's style sheet and its mark."""

from __future__ import annotations

from yinyan.reporting.colours import THEME

__all__ = ["MARK", "STYLE"]

_DARK = """
--ink:#e6e9ec; --muted:#9ba6b2; --faint:#323a43; --paper:#14181c; --card:#1c2127;
--true:#62b5ee; --false:#f0a04b; --third:#45c49e;"""
_LIGHT = " ".join(f"--{name}:{light};" for name, (_, light) in THEME.items()) + " --card:#f5f7f9;"

STYLE = (
    f":root {{ color-scheme: light dark; {_LIGHT} }}\n"
    f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}\n"
    """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 67rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere; }
header { display: flex; gap: 1.1rem; align-items: flex-start; }
header svg { flex: none; width: 3rem; height: 3rem; margin-top: .2rem; }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; letter-spacing: -.01em; text-wrap: balance; }
h2 { margin: 0 0 1rem; font-size: 1.3rem; line-height: 1.3; }
h3 { margin: 1.5rem 0 .4rem; font-size: 1rem; }
p { margin: 0 0 .7rem; max-width: 44rem; }
.subtitle { margin: .35rem 0 0; color: var(--muted); font-size: 1.1rem; }
.small { margin: .2rem 0 0; color: var(--muted); font-size: .85rem; line-height: 1.4; }
section { margin-top: 2.6rem; padding-top: 1.5rem; border-top: 1px solid var(--faint); }
dl, dd, figure { margin: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .8rem; }
.tiles div { padding: .8rem 1rem 1rem; background: var(--card); border-radius: .5rem; }
.tiles dt { color: var(--muted); font-size: .95rem; }
.tiles dd:not(.small) { font-size: 2rem; line-height: 1.25; font-weight: 600; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr));
  gap: .5rem 3rem; }
.pair h3 { margin-top: 0; }
.pair ul { margin: 0; padding-left: 1.1rem; }
.pair li { margin-bottom: .35rem; }
.facts div { display: flex; gap: 1rem; justify-content: space-between; padding: .25rem 0;
  border-bottom: 1px solid var(--faint); }
.facts dt { color: var(--muted); max-width: 50%; overflow-wrap: break-word; }
.facts dd { text-align: right; min-width: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr));
  gap: 2rem 2.5rem; }
figure svg { display: block; width: 100%; height: auto; overflow: visible; }
figcaption { margin-top: .5rem; color: var(--muted); font-size: .9rem; line-height: 1.45; }
.chart { max-width: 31rem; }
.chart h3 { margin: 0 0 .5rem; }
.map { max-width: 40rem; }
.map-and-table { display: grid; grid-template-columns: minmax(0, 1.3fr) minmax(0, 1fr);
  gap: 2rem; align-items: start; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; line-height: 1.4; }
caption { caption-side: bottom; padding-top: .5rem; text-align: left; color: var(--muted); font-size: .9rem; }
th, td { padding: .33rem .6rem; text-align: left; vertical-align: baseline;
  border-bottom: 1px solid var(--faint); }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
thead th, thead td { border-bottom-color: var(--muted); color: var(--muted); font-weight: 500; overflow-wrap: normal; }
tbody th, tr th[scope=row] { font-weight: 500; }
bdi { white-space: pre-wrap; }
.wide { overflow-x: auto; }
.wide caption span { position: sticky; left: 0; display: inline-block; max-width: min(100%, 100vw - 2.5rem); }
.numbers { width: auto; min-width: min(100%, 34rem); font-variant-numeric: tabular-nums; }
.numbers th:not(:first-child), .numbers td:not(:first-child) { text-align: right; overflow-wrap: normal; }
.numbers th:first-child { overflow-wrap: normal; }
.numbers .ours th, .numbers .ours td { background: var(--card); }
.numbers .ours th { color: var(--true); font-weight: 600; padding-left: .5rem; }
.numbers th:first-child, .numbers td:first-child { padding-left: .5rem; }
.numbers th:last-child, .numbers td:last-child { padding-right: .5rem; }
.links { font-variant-numeric: tabular-nums; font-size: .9rem; }
.links th, .links td { padding: .28rem .4rem; }
.links th:first-child { color: var(--muted); text-align: right; width: 1%; overflow-wrap: normal; }
.links th:nth-child(n+4), .links td:nth-child(n+4) { text-align: right; white-space: nowrap; }
summary { cursor: pointer; }
summary h2 { display: inline; }
.groups { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr));
  gap: 0 2.5rem; }
.settings td { text-align: right; }
.settings th { font-weight: 400; color: var(--muted); }
@media (max-width: 56rem) { .map-and-table { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 34rem) {
  body { padding: 1.5rem 1rem 3rem; }
  h1 { font-size: 1.5rem; }
  header svg { width: 2.2rem; height: 2.2rem; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .map svg text { font-size: 10.5px !important; }
  .numbers { font-size: .85rem; }
  .numbers th, .numbers td { padding-left: .35rem; padding-right: .35rem; }
  .links { font-size: .82rem; }
  .links th, .links td { padding-left: .25rem; padding-right: .25rem; }
}
@media print {
  html { font-size: 9pt; }
  body { max-width: none; padding: 0; }
  figure, .tiles, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .charts, .pair { grid-template-columns: 1fr 1fr; }
  .map-and-table { grid-template-columns: minmax(0, 1.3fr) minmax(0, 1fr); }
}
"""
)

MARK = (  # two halves of one circle: attraction and repulsion
    '<svg viewBox="0 0 32 32" aria-hidden="true">'
    '<circle cx="16" cy="16" r="15" fill="none" stroke="var(--ink)" stroke-width="1.2"/>'
    '<path d="M16 1a15 15 0 0 1 0 30a7.5 7.5 0 0 1 0-15a7.5 7.5 0 0 0 0-15z" fill="var(--ink)"/>'
    '<circle cx="16" cy="8.5" r="2.3" fill="var(--ink)"/>'
    '<circle cx="16" cy="23.5" r="2.3" fill="var(--paper)"/></svg>'
)
