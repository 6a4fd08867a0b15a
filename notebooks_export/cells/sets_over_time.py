evaluated = metrics.dropna(subset=["accuracy"])
if len(evaluated):
    figure, axis = plt.subplots(figsize=(page_width, 3.8))
    accuracies = pd.DataFrame(list(evaluated["accuracy"]), index=evaluated.index)
    for i, name in enumerate(names):
        own = accuracies[evaluated["variant"] == name]
        for k, column in enumerate(own.columns if len(own) else []):
            # After step 0, one step has been made.
            axis.plot(evaluated["step"][own.index] + 1, 100 * own[column], marker="o", markersize=4,
                      color=shades[i % len(shades)], linestyle=strokes[k % len(strokes)],
                      linewidth=width_of(i, len(names), extra=1),
                      label=plain(name) + (f", {plain(column)}" if len(own.columns) > 1 else ""))
    axis.set_xlabel("steps made")
    axis.set_ylabel("verification accuracy (%)")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid(alpha=0.3)
    legend_above(axis)
    show_figure(figure, "accuracy", "Verification accuracy during the training")
