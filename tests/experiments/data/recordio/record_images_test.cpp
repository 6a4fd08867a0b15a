// The data set `recordio` on files that MXNet wrote.
#include <doctest/doctest.h>

#include "experiments/data/data_config.h"
#include "experiments/data/recordio/face_records.h"
#include "framework/error.h"
#include "tests/support/files/source_folder.h"
#include "tests/support/message.h"

namespace heddle::test {

using namespace test;

namespace {

std::string written_by_mxnet(const char* name) {
  return (source_folder() / "tests/experiments/data/recordio_files" / name).string();
}

}  // namespace

TEST_CASE("a data set of records has the labels and the decoded images of its file") {
  DataConfig config{.type = DataType::recordio};
  config.recordio.train = written_by_mxnet("insightface.rec");
  config.recordio.test = written_by_mxnet("shuffled.rec");
  config.recordio.image = {3, 8, 8};
  const auto dataset = make_dataset(config, RandomKey{1});
  const FaceRecords records(config.recordio.train);
  REQUIRE(dataset->size(Split::train) == records.size());
  CHECK(dataset->size(Split::test) == FaceRecords(config.recordio.test).size());
  CHECK(dataset->classes() == records.classes());
  const Preprocessing preprocessing = preprocessing_of(config);
  std::vector<float> read(8 * 8 * 3);
  std::vector<float> expected(read.size());
  std::vector<std::uint8_t> buffer;
  for (std::int64_t i = 0; i < records.size(); ++i) {
    CHECK(dataset->label(Split::train, i) == records.label(i));
    CHECK(dataset->sample_name(Split::train, i) == records.name(i));
    read_batch(*dataset, Split::train, std::vector<std::int64_t>{i}, read);
    preprocessing.apply(records.image(i, buffer), "image", expected);
    CHECK(read == expected);
  }
}

TEST_CASE("a data set of records that cannot be opened names the file") {
  DataConfig config{.type = DataType::recordio};
  config.recordio.train = "/nowhere/faces.rec";
  CHECK(message_of<InputError>([&] { (void)make_dataset(config, RandomKey{1}); }) ==
        "/nowhere/faces.rec: cannot be read: No such file or directory");
}

}  // namespace heddle::test
