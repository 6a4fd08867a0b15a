predicted = [variant for variant in pipelines if variant["predicted_seconds"] and variant["step_seconds"]["median"]]
if predicted:
    figure, axis = plt.subplots(figsize=(page_width, 1.4 + 0.45 * len(predicted)))
    rows = pd.Series(range(len(predicted)))
    predictions = [1000 * variant["predicted_seconds"] for variant in predicted]
    measured = [1000 * variant["step_seconds"]["median"] for variant in predicted]
    axis.barh(rows - 0.2, predictions, height=0.4, color="#999999", label="predicted")
    bars = axis.barh(rows + 0.2, measured, height=0.4, color=shades[5], label="measured")
    apart = [f"{100 * (clock / guess - 1):+,.1f} %" for guess, clock in zip(predictions, measured)]
    axis.bar_label(bars, apart, padding=4, fontsize=9)
    axis.set_yticks(rows, [plain(variant["name"]) for variant in predicted])
    axis.invert_yaxis()
    axis.margins(x=0.1, y=0.02)
    axis.set_xlabel("step time (ms)")
    axis.grid(axis="x", alpha=0.3)
    legend_above(axis)
    show_figure(figure, "prediction", "Step time: simulated from the costs of the stages, and measured")
else:
    print("No pipeline was predicted and timed.")
