timed = [variant for variant in variants if variant["samples_per_second"] is not None]
hidden = timed[max_bars:]
timed = timed[:max_bars]
if timed:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 1.4 + 0.5 * len(timed)), sharey=True, layout="constrained")
    labels = [plain(variant["name"]) for variant in timed]
    seconds = pd.DataFrame([variant["step_seconds"] for variant in timed]) * 1000
    spread = [seconds["median"] - seconds["min"], seconds["max"] - seconds["median"]]
    left.barh(range(len(timed)), seconds["median"], xerr=spread, color="#56B4E9", capsize=3)
    left.set_yticks(range(len(timed)), labels)
    left.invert_yaxis()
    left.set_xlabel("step time (ms)")
    left.set_title("Step time: median, minimum to maximum")
    bars = right.barh(range(len(timed)), [variant["samples_per_second"] for variant in timed], color="#009E73")
    right.bar_label(bars, fmt="%.1f", padding=3)
    right.margins(x=0.15)
    right.set_xlabel("images/s")
    right.set_title("Throughput")
    for axis in (left, right):
        axis.grid(axis="x", alpha=0.3)
    plt.show()
    if hidden:
        print(f"{len(hidden)} more variants are in summary.json.")
else:
    print("No step was timed.")
