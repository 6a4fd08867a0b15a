pipelines = [variant for variant in variants if variant["schedule"] is not None]
gained = [variant for variant in pipelines if variant["speedup_over_naive"] is not None]
for variant in gained:
    variant["p"] = 1 + max(rank["coordinates"]["pp"] for rank in variant["ranks"])
markers = ["o", "s", "^", "D", "v", "P", "X", "*"]  # the next one where the shades begin again
if gained:
    kinds = list(dict.fromkeys((variant["schedule"], variant["recompute"]) for variant in gained))
    colour_of = {kind: shades[i % len(shades)] for i, kind in enumerate(kinds)}
    marker_of = {kind: markers[i % len(markers)] for i, kind in enumerate(kinds)}
    recomputes = len({recompute for _, recompute in kinds}) > 1
    figure, axis = plt.subplots(figsize=(page_width, 4.2))
    most = max(variant["micro_batches"] for variant in gained)
    counts = [count / 8 for count in range(8, 8 * most + 1)]
    for stages in sorted({variant["p"] for variant in gained}):
        axis.plot(counts, [count * stages / (count + stages - 1) for count in counts], color="black", linewidth=1,
                  linestyle="--")
        axis.annotate(f"p = {stages}", (counts[-1], most * stages / (most + stages - 1)), xytext=(4, 0), va="center",
                      textcoords="offset points", fontsize=9)
    for kind in kinds:
        for stages in sorted({variant["p"] for variant in gained}):
            points = sorted((variant["micro_batches"], variant["speedup_over_naive"]) for variant in gained
                            if (variant["schedule"], variant["recompute"]) == kind and variant["p"] == stages)
            if points:
                axis.plot(*zip(*points), marker=marker_of[kind], markersize=5, color=colour_of[kind])
    if most > 1:
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda count, _: f"{count:g}")
    axis.set_ylim(bottom=0)
    axis.margins(x=0.08)
    axis.set_xlabel("micro-batches m")
    axis.set_ylabel("speedup over naive")
    axis.grid(alpha=0.3)
    labels = [f"{kind[0]}, recompute {kind[1]}" if recomputes and kind[1] else kind[0] for kind in kinds]
    handles = [plt.Line2D([], [], marker=marker_of[kind], markersize=5, color=colour_of[kind]) for kind in kinds]
    handles.append(plt.Line2D([], [], color="black", linewidth=1, linestyle="--"))
    legend_above(axis, handles, [*labels, "m p / (m + p - 1)"])
    show_figure(figure, "speedup", "Speedup over the naive schedule, against the number of micro-batches")

    figure, axis = plt.subplots(figsize=(page_width, 1.1 + 0.3 * len(gained)))
    colours = [colour_of[variant["schedule"], variant["recompute"]] for variant in gained]
    axis.barh(range(len(gained)), [variant["speedup_over_naive"] for variant in gained], color=colours)
    for row, variant in enumerate(gained):
        axis.plot([variant["ideal_speedup"]] * 2, [row - 0.4, row + 0.4], color="black", linewidth=2)
        end = max(variant["ideal_speedup"], variant["speedup_over_naive"])
        axis.annotate(f"{100 * variant['share_of_ideal']:.1f} %", (end, row), xytext=(5, 0), va="center",
                      textcoords="offset points", fontsize=9)
    axis.set_yticks(range(len(gained)), [plain(variant["name"]) for variant in gained])
    axis.invert_yaxis()
    axis.margins(x=0.12, y=0.02)
    axis.set_xlim(left=0)
    axis.set_xlabel("speedup over naive")
    axis.grid(axis="x", alpha=0.3)
    show_figure(figure, "share_of_ideal", "Speedup, and its share of what the schedule allows (black line)")
else:
    print("No pipeline beside a naive one of as many ranks and the same recomputation.")
