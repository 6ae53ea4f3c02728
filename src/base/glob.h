// Globs over dotted module paths, as used by `record --rule`.
#pragma once

#include <string_view>

namespace goldentrace {

// Whole-string match. `?` is one character but '.', `*` any run without '.', `**` any run at all.
// "model.layers.*.mlp" matches one layer's mlp, "model.**" everything below model.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace goldentrace
