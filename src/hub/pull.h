/// Gets models into the models folder, finds them there, and deletes them.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "hub/download.h"
#include "hub/model_name.h"
#include "hub/remote_files.h"

namespace cairn::hub {

struct PullOptions {
  std::filesystem::path folder;  ///< of models; made if it is not there
  Endpoints endpoints;
  int64_t memory_bytes = 0;  ///< what models may take here, for choosing a quantisation
  bool projector = false;    ///< also the vision projector (mmproj) that lies beside the model
  DownloadLimits limits;
};

/// A line of progress, in the words of Ollama's API: "pulling manifest", "pulling DIGEST12" with bytes, "verifying
/// sha256 digest", "writing manifest", and sentences about what was chosen.
struct PullEvent {
  std::string status;
  std::string digest;                ///< "sha256:..." of the file concerned; empty: none
  int64_t total = 0, completed = 0;  ///< bytes; 0 and 0: no numbers
  bool progress() const { return total > 0; }
};
using OnPullEvent = std::function<void(const PullEvent&)>;

/// Fetches a model's files, which are complete and checked when it returns their paths, the model first. Blocks; any
/// number of threads and processes may pull the same. Errors: those of choose_files and download; kIo where the disk
/// has too little room; kNotFound, which says what else the name could have meant.
Result<std::vector<std::filesystem::path>> pull(const ModelName& name, const PullOptions& options,
                                                const OnPullEvent& on_event, const std::atomic<bool>& cancelled);

/// The model's files in the folder, without asking a hub: one, or all parts of one. Of several files of a repository
/// that the name leaves open, the one that `memory_bytes` would choose; 0: kInvalidArgument, which lists them. Errors:
/// kNotFound.
Result<std::vector<std::filesystem::path>> find_pulled(const ModelName& name, const std::filesystem::path& folder,
                                                       int64_t memory_bytes);

struct Removed {
  std::vector<std::filesystem::path> files;
  int64_t bytes = 0;  ///< that were freed
};
/// Deletes the model's files, what is left of an unfinished pull of it, and folders that are empty then. Only files
/// within the folder. Errors: those of find_pulled; kIo.
Result<Removed> remove_pulled(const ModelName& name, const std::filesystem::path& folder);

}  // namespace cairn::hub
