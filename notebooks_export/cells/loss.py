curves = metrics.dropna(subset=["loss"])
if len(curves):
    figure, axis = plt.subplots(figsize=(page_width, 4.2))
    drawn = [name for name in names if (curves["variant"] == name).any()]
    stretch = 1
    for i, name in enumerate(drawn):
        curve = curves[curves["variant"] == name]
        # In a long run, the steps are a thin line, and their mean over a hundredth of the run is a thick one.
        stretch = max(len(curve) // 100, 1)
        if stretch > 1:
            axis.plot(curve["step"], curve["loss"], color=style_of(i)["color"], linewidth=0.4, alpha=0.3)
        mean = curve["loss"].rolling(stretch, center=True, min_periods=1).mean()
        axis.plot(curve["step"], mean, label=plain(name), marker="." if len(curve) == 1 else None, **style_of(i),
                  linewidth=width_of(i, len(drawn)))
        of_heads = curve["losses"].dropna()
        for k, (head, losses) in enumerate(pd.DataFrame(list(of_heads), index=of_heads.index).items()):
            axis.plot(curve["step"][losses.index], losses.rolling(stretch, center=True, min_periods=1).mean(),
                      color=style_of(i)["color"], linestyle=["--", ":", "-."][k % 3], linewidth=1,
                      label=plain(f"{name}, {head}"))
    axis.set_xlabel("step")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_ylabel("loss")
    axis.grid(alpha=0.3)
    legend_above(axis)
    show_figure(figure, "loss", "Loss, mean over the global batch" + (f" and over {stretch} steps" if stretch > 1 else ""))
else:
    print("No step has a loss.")
