"""How reports look: the style sheet, and colours of gaps that do not depend on telling red from green."""

from __future__ import annotations

import math

__all__ = ["STYLE", "gap_colours", "gap_legend"]

# Blue where the gap is reached, the darker the better; orange where it is not, the darker the worse.
# Steps of two decades.  Blue and orange differ for every common kind of colour vision, light from dark for all.
REACHED = ("#deebf7", "#9ecae1", "#2171b5", "#08306b")
MISSED = ("#fee6ce", "#fdae6b", "#bf4300", "#6e2102")
DECADES = 2
DARK, LIGHT = "#20262e", "#ffffff"

STYLE = """
:root{color-scheme:light}
body{margin:0;background:#f6f7f9;color:#20262e;font:15px/1.5 system-ui,"Segoe UI",Roboto,sans-serif}
main{max-width:62rem;margin:0 auto;padding:2rem 1.25rem 4rem}
h1{font-size:1.6rem;margin:0;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.4rem 0 .4rem}
h3{font-size:1.02rem;margin:1.2rem 0 .3rem;overflow-wrap:anywhere}
h4{font-size:.95rem;margin:1.1rem 0 .2rem}
p{margin:.3rem 0 .8rem}
.made,.about{color:#5a6470;font-size:.86rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;background:#fff;margin:.5rem 0}
th,td{padding:.34rem .7rem;border:1px solid #dde1e6;text-align:left;vertical-align:top}
thead th{background:#eceff3;font-weight:600;font-size:.86rem;max-width:14rem;overflow-wrap:break-word}
tbody th{font-weight:500}
th .about{display:block;font-weight:400}
td.n,td.gap{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.gap a{color:inherit}
td.none{color:#5a6470;background:repeating-linear-gradient(45deg,#fff 0 5px,#eef0f3 5px 10px)}
.verdict{padding:.1rem .55rem;border-radius:.3rem;font-weight:600;white-space:nowrap}
.good{background:#d3e5f2;color:#08306b}
.bad{background:#fdd9bd;color:#7f2704}
.legend{font-size:.86rem;color:#5a6470}
.legend span{display:inline-block;padding:.1rem .5rem}
pre{background:#f1f3f6;border:1px solid #dde1e6;border-radius:.3rem;padding:.6rem .8rem;overflow-x:auto;
font:13px/1.45 ui-monospace,"SFMono-Regular",Consolas,monospace;white-space:pre-wrap;
overflow-wrap:anywhere;margin:.3rem 0}
.card{background:#fff;border:1px solid #dde1e6;border-left:4px solid #c94a00;border-radius:.3rem;
padding:0 1.1rem .7rem;margin:.7rem 0}
.card .about{margin:0}
.card summary{padding:.7rem 0 .2rem;overflow-wrap:anywhere}
.card summary span{color:#5a6470;font-size:.86rem;margin-left:.7rem}
svg{display:block;width:100%;max-width:48rem;height:auto;background:#fff;border:1px solid #dde1e6;border-radius:.3rem;
margin:.5rem 0}
svg text{font-size:12px;fill:#5a6470;paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}
svg .name{fill:#20262e;font-weight:600}
svg .grid{stroke:#e6e9ed}
svg .asked{stroke:#20262e;stroke-dasharray:5 4}
details{margin:.4rem 0}
summary{cursor:pointer}
ul{margin:.2rem 0;padding-left:1.1rem;font-size:.86rem;color:#5a6470}
@media print{body{background:#fff}.card{break-inside:avoid}}
"""


def gap_colours(log10_gap: float, log10_asked: float) -> tuple[str, str]:
    """Colours of a cell and its text, for a gap and the one that was asked for."""
    excess = log10_gap - log10_asked
    shades = REACHED if excess <= 0 else MISSED
    step = len(shades) - 1 if math.isinf(excess) else min(int(abs(excess) / DECADES), len(shades) - 1)
    return shades[step], DARK if step < 2 else LIGHT


def gap_legend() -> str:
    """The colours in words."""
    ranges = [f"{DECADES * k}–{DECADES * (k + 1)}" for k in range(len(REACHED) - 1)]
    ranges.append(f"over {DECADES * (len(REACHED) - 1)}")
    better = "".join(_swatch(REACHED, k, ranges[k]) for k in reversed(range(len(REACHED))))
    worse = "".join(_swatch(MISSED, k, ranges[k]) for k in range(len(MISSED)))
    return f'<p class="legend">decades better than asked for: {better} worse: {worse}</p>'


def _swatch(shades: tuple[str, ...], k: int, text: str) -> str:
    return f'<span style="background:{shades[k]};color:{DARK if k < 2 else LIGHT}">{text}</span>'
