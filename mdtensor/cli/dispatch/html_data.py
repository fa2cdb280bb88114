"""How the page of `coverage --html` looks: light and dark, on a screen and on paper."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --pale: #5b636c;
  --line: #d5dae0; --band: #f5f6f8; --runs: #0a6b3d; --rounds: #0a6480;
  --missing: #8a5800; --bad: #b0001e; --alarm: #fdeef0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ec; --paper: #14171b;
  --pale: #a2aab3; --line: #3a4149; --band: #1c2026; --runs: #72d69d;
  --rounds: #70c8e4; --missing: #e3b457; --bad: #ff8292; --alarm: #34181d; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 9rem; }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); max-width: 1240px; margin: 0 auto; padding: 24px 20px; }
h1 { font-size: 26px; margin: 0; }
h2 { font-size: 19px; margin: 36px 0 10px; }
h3 { font-size: 15px; margin: 0; }
h3 small { color: var(--pale); font-weight: normal; margin-left: .6em; }
p { margin: 4px 0; }
a { color: inherit; text-decoration: none; }
nav a, a.what { text-decoration: underline; text-underline-offset: 2px; }
nav { margin: 10px 0; line-height: 1.7; }
nav a { margin-right: 1em; white-space: nowrap; }
code, pre { font: 12px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
code, pre, li, td, th, a.what { overflow-wrap: anywhere; }
pre { white-space: pre-wrap; margin: 4px 0 0; }
.sub { color: var(--pale); }
.figures { display: flex; flex-wrap: wrap; gap: 8px; margin: 16px 0; padding: 0; }
.figures li { list-style: none; border: 1px solid var(--line); border-radius: 6px;
  padding: 6px 14px; }
.figures b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.figures .bad { border: 2px solid; }
.legend { margin: 0 0 10px; padding: 0; display: flex; flex-wrap: wrap; gap: 2px 22px; }
.legend li { list-style: none; }
.mark { display: inline-block; width: 1.2em; text-align: center; }
.runs { color: var(--runs); }
.rounds { color: var(--rounds); }
.missing { color: var(--missing); }
.refused, .unknown { color: var(--pale); }
.bad, .ambiguous { color: var(--bad); font-weight: 600; }
.matrix { width: 100%; table-layout: fixed; border-collapse: collapse; }
.matrix col.name { width: 216px; }
.matrix td { text-align: center; padding: 0; height: 21px; }
.matrix td a { display: block; width: 100%; }
.matrix th { font-weight: normal; text-align: left; padding: 1px 6px 1px 0; }
.matrix th a:hover { text-decoration: underline; }
.matrix thead { position: sticky; top: 0; background: var(--paper); }
.matrix thead th { padding: 3px 0; text-align: center; }
.matrix thead th.first { font-weight: 600; border-bottom: 1px solid var(--line); }
.matrix thead th.kind { writing-mode: vertical-rl; transform: rotate(180deg);
  text-align: left; padding: 4px 0; width: 100%; }
.matrix tbody tr:nth-child(even) { background: var(--band); }
.matrix tbody tr:hover { background: var(--line); }
.matrix .family { background: none !important; }
.matrix .family th { font-weight: 600; padding: 12px 0 3px;
  border-bottom: 1px solid var(--pale); }
.matrix .bad, .matrix a.ambiguous { font-weight: 700; }
.matrix a.ambiguous { outline: 2px solid; outline-offset: -2px; }
.first { border-left: 2px solid var(--line); }
section.bad { background: var(--alarm); border: 2px solid; border-radius: 6px;
  margin: 24px 0; padding: 4px 20px 14px; font-weight: normal; }
section.bad h2 { margin: 10px 0; }
section.bad pre { color: var(--ink); }
section.bad ul { list-style: none; padding: 0; margin: 0; }
section.bad li + li { margin-top: 14px; }
svg { max-width: 100%; height: auto; display: block; }
svg text { fill: currentColor; font: 11px ui-monospace, "DejaVu Sans Mono", monospace; }
svg path { stroke: var(--pale); fill: none; }
svg rect { fill: var(--paper); stroke: var(--pale); }
svg .leaf rect { fill: var(--band); stroke: var(--line); }
svg .bad rect { fill: var(--alarm); stroke: currentColor; stroke-width: 2; }
article { border-top: 1px solid var(--line); padding: 12px 0; }
.methods { border-collapse: collapse; width: 100%; margin-top: 4px; }
.methods td { vertical-align: top; padding: 2px 16px 2px 0; }
.methods { table-layout: fixed; }
.methods td:nth-child(2) { width: 27%; }
.methods td:nth-child(4) { width: 28%; }
.methods .number { width: 9.5em; font-variant-numeric: tabular-nums; }
.why { margin: 4px 0 0; padding: 0; color: var(--pale); }
.why li { list-style: none; }
.types + .types { margin-left: .8em; }
.methods .types { display: block; margin: 0; }
.types b { font-weight: 600; }
.why .types b { color: var(--ink); }
:target { outline: 2px solid var(--rounds); outline-offset: 2px; }
@page { size: A4 landscape; margin: 10mm; }
@media print {
  :root { color-scheme: light; --ink: #000; --paper: #fff; --pale: #333;
    --line: #aaa; --band: #f2f2f2; --runs: #000; --rounds: #000; --missing: #000;
    --bad: #a00018; --alarm: #fff; }
  body { max-width: none; padding: 0; font-size: 9px; }
  code, pre { font-size: 8px; }
  nav { display: none; }
  h2, h3 { break-after: avoid; }
  tr, li, svg, .figures li { break-inside: avoid; }
  .matrix thead { position: static; }
  .matrix col.name { width: 130px; }
  .matrix td { height: 13px; }
  .matrix .family th { break-after: avoid; }
  .details { columns: 2; column-gap: 8mm; }
  article { padding: 5px 0; }
  h3 { font-size: 11px; }
}
"""
