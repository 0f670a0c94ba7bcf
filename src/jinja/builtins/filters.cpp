#include "jinja/builtins/filters.h"

#include <algorithm>

#include "jinja/interpret/functions.h"
#include "jinja/value/object.h"
#include "jinja/value/operators.h"

namespace cairn::jinja {
namespace {

struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};

constexpr FilterEntry kFilters[] = {
    {"abs", filters::abs},
    {"attr", filters::attribute},
    {"batch", filters::batch},
    {"capitalize", filters::capitalize},
    {"center", filters::center},
    {"count", filters::length},
    {"d", filters::default_value},
    {"default", filters::default_value},
    {"dictsort", filters::dictsort},
    {"e", filters::escape},
    {"escape", filters::escape},
    {"filesizeformat", filters::filesizeformat},
    {"first", filters::first},
    {"float", filters::to_float},
    {"forceescape", filters::force_escape},
    {"format", filters::format},
    {"groupby", filters::groupby},
    {"indent", filters::indent},
    {"int", filters::to_int},
    {"items", filters::items},
    {"join", filters::join},
    {"last", filters::last},
    {"length", filters::length},
    {"list", filters::list},
    {"lower", filters::lower},
    {"map", filters::map},
    {"max", filters::max},
    {"min", filters::min},
    {"pprint", filters::pprint},
    {"reject", filters::reject},
    {"rejectattr", filters::rejectattr},
    {"replace", filters::replace},
    {"reverse", filters::reverse},
    {"round", filters::round},
    {"safe", filters::safe},
    {"select", filters::select},
    {"selectattr", filters::selectattr},
    {"slice", filters::slice},
    {"sort", filters::sort},
    {"string", filters::string},
    {"striptags", filters::striptags},
    {"sum", filters::sum},
    {"title", filters::title},
    {"tojson", filters::tojson},
    {"trim", filters::trim},
    {"truncate", filters::truncate},
    {"unique", filters::unique},
    {"upper", filters::upper},
    {"urlencode", filters::urlencode},
    {"wordcount", filters::wordcount},
    {"wordwrap", filters::wordwrap},
    {"xmlattr", filters::xmlattr},
};

}  // namespace

FilterFunction find_filter(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                   [&](const FilterEntry& entry) { return entry.name == name; });
  return found == std::end(kFilters) ? nullptr : found->function;
}

Result<Value> make_iterator(Budget& budget, std::vector<Value> items) {
  CAIRN_TRY(Value list, make_list(budget, std::move(items)));
  const int32_t depth = list.depth();
  CAIRN_TRY(auto iterator, make_object<Iterator>(budget, depth, std::move(list)));
  return Value(std::shared_ptr<Object>(std::move(iterator)));
}

}  // namespace cairn::jinja
