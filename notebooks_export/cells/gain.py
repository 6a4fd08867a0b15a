pipelines = [variant for variant in variants if variant["schedule"] is not None]
gained = [variant for variant in pipelines if variant["speedup_over_naive"] is not None]
for variant in gained:
    variant["p"] = 1 + max(rank["coordinates"]["pp"] for rank in variant["ranks"])
shades = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F3C8D", "#666666"]
markers = ["o", "s", "^", "D", "v", "P", "X", "*"]  # the next one where the shades begin again
if gained:
    kinds = list(dict.fromkeys((variant["schedule"], variant["recompute"]) for variant in gained))
    colour_of = {kind: shades[i % len(shades)] for i, kind in enumerate(kinds)}
    marker_of = {kind: markers[i // len(shades) % len(markers)] for i, kind in enumerate(kinds)}
    recomputes = len({recompute for _, recompute in kinds}) > 1
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, max(3.8, 1.2 + 0.36 * len(gained))), width_ratios=(1, 1.15), layout="constrained"
    )
    most = max(variant["micro_batches"] for variant in gained)
    counts = [count / 8 for count in range(8, 8 * most + 1)]
    for stages in sorted({variant["p"] for variant in gained}):
        left.plot(counts, [count * stages / (count + stages - 1) for count in counts], color="black", linewidth=1,
                  linestyle="--")
        left.annotate(f"p = {stages}", (counts[-1], most * stages / (most + stages - 1)), xytext=(4, 0), va="center",
                      textcoords="offset points", fontsize=9)
    for kind in kinds:
        for stages in sorted({variant["p"] for variant in gained}):
            points = sorted((variant["micro_batches"], variant["speedup_over_naive"]) for variant in gained
                            if (variant["schedule"], variant["recompute"]) == kind and variant["p"] == stages)
            if points:
                left.plot(*zip(*points), marker=marker_of[kind], markersize=5, color=colour_of[kind])
    if most > 1:
        left.set_xscale("log", base=2)
        left.xaxis.set_major_formatter(lambda count, _: f"{count:g}")
    left.set_ylim(bottom=0)
    left.margins(x=0.08)
    left.set_xlabel("micro-batches m")
    left.set_ylabel("speedup over naive")
    left.set_title("Speedup; dashed: m p / (m + p - 1)")
    for kind in kinds:
        name = f"{kind[0]}, recompute {kind[1]}" if recomputes and kind[1] else kind[0]
        left.plot([], [], marker=marker_of[kind], markersize=5, color=colour_of[kind], label=name)
    left.legend(frameon=False, fontsize=9)
    colours = [colour_of[variant["schedule"], variant["recompute"]] for variant in gained]
    bars = right.barh(range(len(gained)), [variant["speedup_over_naive"] for variant in gained], color=colours, alpha=0.75)
    for row, variant in enumerate(gained):
        right.plot([variant["ideal_speedup"]] * 2, [row - 0.4, row + 0.4], color="black", linewidth=2)
    right.bar_label(bars, [f"{100 * variant['share_of_ideal']:.1f} %" for variant in gained], label_type="center",
                    fontsize=9, color="white", fontweight="bold")
    right.set_yticks(range(len(gained)), [plain(variant["name"]) for variant in gained])
    right.invert_yaxis()
    right.set_xlabel("speedup over naive")
    right.set_title("Share of the schedule's ideal (black line)")
    for axis in (left, right):
        axis.grid(axis="x" if axis is right else "both", alpha=0.3)
    plt.show()
else:
    print("No pipeline beside a naive one of as many ranks and the same recomputation.")
