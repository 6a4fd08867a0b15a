for variant in variants:
    if variant["status"] != "ok":
        print(f"{variant['name']}: {variant['status']}: {variant['error']}")
