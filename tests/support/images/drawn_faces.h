// Small faces that tests draw, as images and in the files that hold them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "experiments/data/codecs/image_codecs.h"
#include "framework/files/atomic_file.h"

namespace heddle::test {

/// A grey image of 8 x 8 pixels; people differ in how bright their left half is, photographs in the rest.
inline Image drawn_face(int person, int photograph) {
  Image image{.height = 8, .width = 8, .channels = 1, .pixels = {}};
  for (int i = 0; i < 64; ++i)
    image.pixels.push_back(
        static_cast<std::uint8_t>(i % 8 < 4 ? 20 + 35 * person : (37 * photograph + 11 * i + 5 * person) % 256));
  return image;
}

inline void write_new_file(const std::filesystem::path& file, const std::string& bytes) {
  std::filesystem::create_directories(file.parent_path());
  write_file_atomically(file, bytes);
}

inline std::string face_as_pgm(int person, int photograph) {
  const Image image = drawn_face(person, photograph);
  return "P5 8 8 255\n" + std::string(image.pixels.begin(), image.pixels.end());
}

inline std::string face_as_jpeg(int person, int photograph) {
  const std::vector<std::uint8_t> bytes = encode_jpeg(drawn_face(person, photograph), 90);
  return {bytes.begin(), bytes.end()};
}

/// JPEG files `FOLDER/person/photograph.jpg`, as many for each person as the list says.
inline void write_people(const std::filesystem::path& folder, const std::vector<int>& photographs) {
  for (std::size_t person = 0; person < photographs.size(); ++person)
    for (int i = 0; i < photographs[person]; ++i)
      write_new_file(folder / fmt::format("p{}/{}.jpg", person, i), face_as_jpeg(static_cast<int>(person), i));
}

/// A verification set as InsightFace writes it: a pickle, of protocol 2, of encoded images and of a label for each two.
inline std::string bin_file(const std::vector<std::string>& images, const std::vector<bool>& labels) {
  std::string pickle = "\x80\x02](";
  for (const std::string& image : images) {
    pickle += 'T';
    for (int shift = 0; shift < 32; shift += 8) pickle += static_cast<char>(image.size() >> shift);
    pickle += image;
  }
  pickle += "e](";
  for (const bool label : labels) pickle += label ? '\x88' : '\x89';
  return pickle + "e\x86.";
}

}  // namespace heddle::test
