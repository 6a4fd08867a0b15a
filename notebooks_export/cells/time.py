timed = [variant for variant in variants if variant["samples_per_second"] is not None]
hidden = timed[max_bars:]
timed = timed[:max_bars]
if timed:
    figure, (left, right) = plt.subplots(1, 2, figsize=(page_width, 0.9 + 0.3 * len(timed)), sharey=True)
    labels = [plain(variant["name"]) for variant in timed]
    seconds = pd.DataFrame([variant["step_seconds"] for variant in timed]) * 1000
    spread = [seconds["median"] - seconds["min"], seconds["max"] - seconds["median"]]
    left.barh(range(len(timed)), seconds["median"], xerr=spread, color=shades[5], ecolor="black", capsize=3)
    left.set_yticks(range(len(timed)), labels)
    left.invert_yaxis()
    left.set_xlabel("step time (ms)")
    bars = right.barh(range(len(timed)), [variant["samples_per_second"] for variant in timed], color=shades[2])
    right.bar_label(bars, fmt="%.1f", padding=3, fontsize=9)
    right.margins(x=0.25)
    right.set_xlabel("throughput (images/s)")
    for axis in (left, right):
        axis.grid(axis="x", alpha=0.3)
    show_figure(figure, "time", "Step time, median with minimum and maximum, and throughput")
    if hidden:
        print(f"{len(hidden)} more variants are in summary.json.")
else:
    print("No step was timed.")
