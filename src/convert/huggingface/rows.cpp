#include "convert/huggingface/rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace cairn::convert {
namespace {

class ConstantRow final : public Rows {
 public:
  explicit ConstantRow(std::vector<float> values)
      : Rows(1, static_cast<int64_t>(values.size())), values_(std::move(values)) {}
  void read(int64_t begin, int64_t end, float* out) const override {
    for (int64_t row = begin; row < end; ++row) out = std::ranges::copy(values_, out).out;
  }
  void release(int64_t, int64_t) const override {}

 private:
  std::vector<float> values_;
};

class SelectedRows final : public Rows {
 public:
  SelectedRows(RowsPtr rows, std::vector<int64_t> source)
      : Rows(static_cast<int64_t>(source.size()), rows->length()), rows_(std::move(rows)), source_(std::move(source)) {}
  int64_t piece_rows() const override { return rows_->piece_rows(); }
  void read(int64_t begin, int64_t end, float* out) const override {
    each_run(begin, end, [&](int64_t from, int64_t count) {
      rows_->read(from, from + count, out);
      out += count * length();
    });
  }
  TensorType blocks() const override { return rows_->blocks(); }
  void read_blocks(int64_t begin, int64_t end, std::byte* out) const override {
    each_run(begin, end, [&](int64_t from, int64_t count) {
      rows_->read_blocks(from, from + count, out);
      out += count * row_bytes(blocks(), length());
    });
  }
  void release(int64_t begin, int64_t end) const override {
    each_run(begin, end, [&](int64_t from, int64_t count) { rows_->release(from, from + count); });
  }

 private:
  // Calls run(first source row, rows) for each run of source rows that follow each other.
  template <class Run>
  void each_run(int64_t begin, int64_t end, Run run) const {
    for (int64_t row = begin; row < end;) {
      int64_t next = row + 1;
      while (next < end && source_[static_cast<size_t>(next)] == source_[static_cast<size_t>(next - 1)] + 1) ++next;
      run(source_[static_cast<size_t>(row)], next - row);
      row = next;
    }
  }

  RowsPtr rows_;
  std::vector<int64_t> source_;
};

class SlicedRows final : public Rows {
 public:
  SlicedRows(RowsPtr rows, int64_t begin, int64_t count)
      : Rows(count, rows->length()), rows_(std::move(rows)), begin_(begin) {}
  int64_t piece_rows() const override { return rows_->piece_rows(); }
  void read(int64_t begin, int64_t end, float* out) const override { rows_->read(begin_ + begin, begin_ + end, out); }
  TensorType blocks() const override { return rows_->blocks(); }
  void read_blocks(int64_t begin, int64_t end, std::byte* out) const override {
    rows_->read_blocks(begin_ + begin, begin_ + end, out);
  }
  void release(int64_t begin, int64_t end) const override { rows_->release(begin_ + begin, begin_ + end); }

 private:
  RowsPtr rows_;
  int64_t begin_;
};

class StackedRows final : public Rows {
 public:
  StackedRows(std::vector<RowsPtr> parts, int64_t count) : Rows(count, parts[0]->length()), parts_(std::move(parts)) {
    int64_t rows = 0;
    for (const RowsPtr& part : parts_) ends_.push_back(rows += part->count());
  }
  int64_t piece_rows() const override {
    int64_t most = 1;
    for (const RowsPtr& part : parts_) most = std::max(most, part->piece_rows());
    return most;
  }
  void read(int64_t begin, int64_t end, float* out) const override {
    each_part(begin, end, [&](const Rows& part, int64_t from, int64_t until) {
      part.read(from, until, out);
      out += (until - from) * length();
    });
  }
  TensorType blocks() const override {
    const bool same =
        std::ranges::all_of(parts_, [&](const RowsPtr& each) { return each->blocks() == parts_[0]->blocks(); });
    return same ? parts_[0]->blocks() : TensorType::kF32;
  }
  void read_blocks(int64_t begin, int64_t end, std::byte* out) const override {
    each_part(begin, end, [&](const Rows& part, int64_t from, int64_t until) {
      part.read_blocks(from, until, out);
      out += (until - from) * row_bytes(part.blocks(), length());
    });
  }
  void release(int64_t begin, int64_t end) const override {
    each_part(begin, end, [&](const Rows& part, int64_t from, int64_t until) { part.release(from, until); });
  }

 private:
  template <class Use>
  void each_part(int64_t begin, int64_t end, Use use) const {
    auto part = static_cast<size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin());
    for (int64_t row = begin; row < end; ++part) {
      const int64_t first = ends_[part] - parts_[part]->count();
      const int64_t until = std::min(end, ends_[part]);
      if (until > row) use(*parts_[part], row - first, until - first);
      row = std::max(row, until);
    }
  }

  std::vector<RowsPtr> parts_;
  std::vector<int64_t> ends_;
};

class GatheredRows final : public Rows {
 public:
  GatheredRows(RowsPtr rows, std::vector<int64_t> source)
      : Rows(rows->count(), static_cast<int64_t>(source.size())), rows_(std::move(rows)), source_(std::move(source)) {}
  void read(int64_t begin, int64_t end, float* out) const override {
    std::vector<float> whole(static_cast<size_t>(rows_->length()));
    for (int64_t row = begin; row < end; ++row) {
      rows_->read(row, row + 1, whole.data());
      for (const int64_t column : source_) *out++ = whole[static_cast<size_t>(column)];
    }
  }
  void release(int64_t begin, int64_t end) const override { rows_->release(begin, end); }

 private:
  RowsPtr rows_;
  std::vector<int64_t> source_;
};

// Row c of a turned matrix is column c of the source, so that every piece reads the whole matrix: pieces are large.
class TransposedRows final : public Rows {
 public:
  TransposedRows(RowsPtr rows, int64_t matrix_rows)
      : Rows(rows->count() / matrix_rows * rows->length(), matrix_rows), rows_(std::move(rows)) {}
  int64_t piece_rows() const override { return std::clamp<int64_t>(kPieceElements / length(), 1, rows_->length()); }
  void read(int64_t begin, int64_t end, float* out) const override {
    const int64_t turned_rows = rows_->length();
    std::vector<float> whole(static_cast<size_t>(turned_rows));
    for (int64_t row = begin; row < end;) {
      const int64_t matrix = row / turned_rows;
      const int64_t until = std::min(end, (matrix + 1) * turned_rows);
      const int64_t column = row - matrix * turned_rows;
      for (int64_t source = 0; source < length(); ++source) {
        rows_->read(matrix * length() + source, matrix * length() + source + 1, whole.data());
        for (int64_t i = 0; i < until - row; ++i) {
          out[i * length() + source] = whole[static_cast<size_t>(column + i)];
        }
      }
      out += (until - row) * length();
      row = until;
    }
  }
  void release(int64_t begin, int64_t end) const override {
    const int64_t turned_rows = rows_->length();
    rows_->release(begin / turned_rows * length(), (end + turned_rows - 1) / turned_rows * length());
  }

 private:
  static constexpr int64_t kPieceElements = 2 << 20;

  RowsPtr rows_;
};

class MappedRows final : public Rows {
 public:
  MappedRows(RowsPtr rows, std::function<float(float)> change)
      : Rows(rows->count(), rows->length()), rows_(std::move(rows)), change_(std::move(change)) {}
  int64_t piece_rows() const override { return rows_->piece_rows(); }
  void read(int64_t begin, int64_t end, float* out) const override {
    rows_->read(begin, end, out);
    for (float& value : std::span(out, static_cast<size_t>((end - begin) * length()))) value = change_(value);
  }
  void release(int64_t begin, int64_t end) const override { rows_->release(begin, end); }

 private:
  RowsPtr rows_;
  std::function<float(float)> change_;
};

class ReshapedRows final : public Rows {
 public:
  ReshapedRows(RowsPtr rows, int64_t length)
      : Rows(rows->count() * rows->length() / length, length), rows_(std::move(rows)) {}
  void read(int64_t begin, int64_t end, float* out) const override {
    const int64_t first = begin * length(), last = end * length(), old = rows_->length();
    const int64_t from = first / old, until = (last + old - 1) / old;
    std::vector<float> whole(static_cast<size_t>((until - from) * old));
    rows_->read(from, until, whole.data());
    std::copy_n(whole.data() + (first - from * old), last - first, out);
  }
  void release(int64_t, int64_t) const override { rows_->release(0, rows_->count()); }

 private:
  RowsPtr rows_;
};

}  // namespace

RowsPtr constant_row(std::vector<float> values) { return std::make_shared<ConstantRow>(std::move(values)); }
RowsPtr selected(RowsPtr rows, std::vector<int64_t> source) {
  for (const int64_t row : source) CAIRN_CHECK(row >= 0 && row < rows->count());
  return std::make_shared<SelectedRows>(std::move(rows), std::move(source));
}
RowsPtr slice(RowsPtr rows, int64_t begin, int64_t count) {
  CAIRN_CHECK(begin >= 0 && count >= 0 && begin + count <= rows->count());
  return std::make_shared<SlicedRows>(std::move(rows), begin, count);
}
RowsPtr stacked(std::vector<RowsPtr> parts) {
  CAIRN_CHECK(!parts.empty());
  int64_t count = 0;
  for (const RowsPtr& part : parts) {
    CAIRN_CHECK(part->length() == parts[0]->length());
    count += part->count();
  }
  return std::make_shared<StackedRows>(std::move(parts), count);
}
RowsPtr gathered(RowsPtr rows, std::vector<int64_t> source) {
  for (const int64_t column : source) CAIRN_CHECK(column >= 0 && column < rows->length());
  return std::make_shared<GatheredRows>(std::move(rows), std::move(source));
}
RowsPtr transposed(RowsPtr rows, int64_t matrix_rows) {
  CAIRN_CHECK(matrix_rows > 0 && rows->count() % matrix_rows == 0);
  return std::make_shared<TransposedRows>(std::move(rows), matrix_rows);
}
RowsPtr mapped(RowsPtr rows, std::function<float(float)> change) {
  return std::make_shared<MappedRows>(std::move(rows), std::move(change));
}
RowsPtr reshaped(RowsPtr rows, int64_t length) {
  CAIRN_CHECK(length > 0 && rows->count() * rows->length() % length == 0);
  return std::make_shared<ReshapedRows>(std::move(rows), length);
}

}  // namespace cairn::convert
