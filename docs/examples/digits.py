import numpy, sklearn.datasets
digits = sklearn.datasets.load_digits()
numpy.save("image.npy", (digits.images[:, None] / 16).astype("float32"))
numpy.save("label.npy", digits.target.astype("int32"))
