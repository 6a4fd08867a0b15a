// The features of a synthetic face, and how it is painted. Lengths are in half face heights from the face's centre, y
// down; colours are 0 to 1.
#pragma once

#include <span>

#include "experiments/data/augmentation.h"
#include "framework/scalars/random.h"

namespace heddle {

struct Colour {
  float red = 0;
  float green = 0;
  float blue = 0;
};

/// The features of a person.
struct FaceIdentity {
  Colour skin, hair, iris, lips, glasses;
  float half_width, jaw_taper, squareness, asymmetry;
  float hairline, hairline_curve, hairline_tilt, hair_volume, hair_length;
  float eye_y, eye_x, eye_width, eye_height, eye_slant, iris_radius;
  float brow_height, brow_thickness, brow_length, brow_slope, brow_arch;
  float nose_tip, nose_width, nose_bridge, nose_shade;
  float mouth_y, mouth_width, upper_lip, lower_lip, mouth_curve;
  float ear_size, ear_y, blush, beard, beard_edge, moustache;
  bool has_glasses, has_mole;
  float glasses_radius, glasses_thickness, mole_x, mole_y, mole_radius;
};
FaceIdentity draw_identity(RandomStream draws);

/// The circumstances of one photograph.
struct FacePose {
  Colour background, background_slope, shirt, cast;
  float roll, yaw, pitch, scale, move_x, move_y;
  float light_x, light_y, gain, softness, noise;
  float smile, mouth_open, eye_open, brow_raise;
};
FacePose draw_pose(RandomStream& draws);

/// Paints a face into rows of interleaved channels, with pixels from -1 to 1 in steps of 2 / 255. Takes one random word
/// per pixel from `noise`.
void paint_face(const FaceIdentity& identity, const FacePose& pose, const ImageShape& shape, RandomStream& noise,
                std::span<float> pixels);

}  // namespace heddle
