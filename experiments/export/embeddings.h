// Embeddings of image files, and the files that they are written to.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/training/evaluation/checkpoint_model.h"
#include "framework/files/atomic_file.h"

namespace heddle {

/// The image files that arguments name: files as they are given, and all images below a folder, in natural order.
/// InputError for a path that does not exist, or a folder without images.
std::vector<std::string> find_images(const std::vector<std::filesystem::path>& paths);

/// A file of embeddings: `.npy`, f32 [images, d], with the images' paths, one per line, in a file `.txt` of the same
/// name; `.parquet`, with the columns `image` and `embedding`; or `.csv`, one line per image. Bytes of a path that are
/// not UTF-8 become U+FFFD, and in `.txt` they and control characters `?`. The files appear when they are complete.
class EmbeddingsFile {
 public:
  virtual ~EmbeddingsFile() = default;
  /// Appends the embeddings [n, d] of the next n images.
  virtual void append(std::span<const float> embeddings) = 0;
  /// Error if embeddings are missing.
  virtual void commit() = 0;
};
/// The file with the names of the rows of a .npy.
std::filesystem::path names_beside(std::filesystem::path npy);
/// InputError for another ending.
std::unique_ptr<EmbeddingsFile> open_embeddings(const std::filesystem::path& path,
                                                const std::vector<std::string>& images, std::int64_t dimension);

/// Embeds files on the ranks of the model's experiment, some thousands at a time. Only rank 0 calls `use`. With
/// `normalizes` embeddings have unit length. InputError names an image that is broken. A collective call.
void embed_files(const CheckpointModel& model, const std::vector<std::string>& files, bool normalizes, Job* job,
                 const std::function<void(std::span<const float>)>& use);

}  // namespace heddle
