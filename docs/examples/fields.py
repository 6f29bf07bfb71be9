# Noisy and clean fields as field.npy and target.npy, f32[samples, 1, depth, rows, columns]: a clean field is the
# sum of 6 plane waves of random direction, phase and wave length (4 to 16 points); the noise is normal, of the
# same strength as the field.
import numpy

samples, shape = 160, (16, 16, 16)
random = numpy.random.default_rng(1)
points = numpy.stack(numpy.meshgrid(*(numpy.arange(n) for n in shape), indexing="ij"), -1)
clean = numpy.zeros((samples, 1, *shape), "float32")
for sample in clean:
    for _ in range(6):
        direction = random.normal(size=3)
        direction *= 2 * numpy.pi / random.uniform(4, 16) / numpy.linalg.norm(direction)
        sample[0] += numpy.cos(points @ direction + random.uniform(0, 2 * numpy.pi)) / numpy.sqrt(3)
numpy.save("field.npy", clean + random.normal(size=clean.shape).astype("float32"))
numpy.save("target.npy", clean)
