#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>

#include "orrery/cli/command.h"
#include "orrery/cli/usage.h"
#include "orrery/cluster/collective.h"
#include "orrery/cluster/network/network.h"
#include "orrery/model/stack.h"
#include "orrery/workload/zoo/zoo.h"

namespace orrery {
namespace {

/// What can stand for a value of the name that options give it ("--on DEVICE").
struct ValueKind {
  std::string value;
  bool files;  ///< A file will do as well as a name.
  std::function<std::vector<std::string>()> names;
};

const std::vector<ValueKind>& value_kinds() {
  static const std::vector<ValueKind> kinds = {
      {"WORKLOAD", true,
       [] {
         std::vector<std::string> names;
         for (const ZooModel& m : zoo_models()) names.push_back(m.name);
         return names;
       }},
      {"DEVICE", true, [] { return Session().catalogue().names(); }},
      {"CLUSTER", true, [] { return Session().catalogue().cluster_names(); }},
      {"ROUTING", false,
       [] {
         return std::vector<std::string>{"destination", "hash"};
       }},
      {"NETWORK", false, [] { return Registry<fabric::Network>::instance().names(); }},
      {"LIBRARY", false, [] { return Registry<CollectiveLibrary>::instance().names(); }},
      {"KIND", false,
       [] {
         std::vector<std::string> names;
         for (size_t i = 0; i < kCollectiveKindCount; ++i)
           names.emplace_back(name(static_cast<CollectiveKind>(i)));
         return names;
       }},
      {"FILE", true, [] { return std::vector<std::string>(); }},
      {"CSV", true, [] { return std::vector<std::string>(); }},
      {"STACK", false, [] { return Registry<Stack>::instance().names(); }},
      {"MODEL", false, [] { return Registry<KernelModel>::instance().names(); }},
      {"PHASE", false,
       [] {
         return std::vector<std::string>{"forward", "prefill", "decode", "train"};
       }},
      {"REGIME", false,
       [] {
         return std::vector<std::string>{"burst", "sustained"};
       }},
      {"DTYPE", false,
       [] {
         return std::vector<std::string>{"bf16", "fp16", "fp32", "tf32"};
       }},
      {"SHELL", false,
       [] {
         return std::vector<std::string>{"bash", "zsh"};
       }},
  };
  return kinds;
}

const ValueKind* find_kind(const std::string& value) {
  for (const ValueKind& kind : value_kinds())
    if (kind.value == value) return &kind;
  return nullptr;
}

/// In single quotes for a shell.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

constexpr const char* kBashOpening =
    R"sh(# bash completion for orrery; written by 'orrery completion bash'.

# _orrery_names VALUE [files]: the names the program knows, and files where they do.
_orrery_names() {
  mapfile -t COMPREPLY < <(compgen -W "$("$program" completion --list "$1" 2>/dev/null)" -- "$word")
  if [[ ${2-} == files ]]; then
    compopt -o filenames 2>/dev/null
    local file
    while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$word")
  fi
}

_orrery() {
  local program=$1 word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command=${COMP_WORDS[1]-}
  COMPREPLY=()
  # Readline takes "--on=h2" for three words.
  if [[ $word == '=' ]]; then
    word=
  elif [[ $before == '=' ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if ((COMP_CWORD == 1)); then
)sh";

constexpr const char* kZshOpening =
    R"sh(#compdef orrery
# zsh completion for orrery; written by 'orrery completion zsh'.

# _orrery_names VALUE [files]: the names the program knows, and files where they do.
_orrery_names() {
  local -a names
  names=(${(f)"$(_call_program names $service completion --list $1 2>/dev/null)"})
  if [[ $2 == files ]]; then
    _alternative "names:${1}:compadd -a names" 'files:file:_files'
  else
    compadd -a names
  fi
}

_orrery() {
  local curcontext=$curcontext state line ret=1
  typeset -A opt_args
)sh";

std::string bash_values(const OptionUsage& option) {
  const ValueKind* kind = find_kind(option.value);
  if (kind == nullptr) return ":";
  return fmt::format("_orrery_names {}{}", kind->value, kind->files ? " files" : "");
}

std::string bash_script(const ProgramUsage& usage) {
  std::string commands, options;
  for (const CommandUsage& c : usage.commands) commands += c.name + " ";
  for (const OptionUsage& o : usage.program.options) options += o.name + " ";
  std::string script = kBashOpening;
  script +=
      fmt::format("    mapfile -t COMPREPLY < <(compgen -W {} -- \"$word\")\n    return 0\n  fi\n",
                  shell_quoted(commands + options.substr(0, options.size() - 1)));
  script += "  case $command in\n";
  for (const CommandUsage& c : usage.commands) {
    std::string names, positional = ":";
    script += fmt::format("    {})\n      case $before in\n", c.name);
    for (const OptionUsage& o : c.options) {
      if (o.positional) {
        positional = bash_values(o);
        continue;
      }
      names += (names.empty() ? "" : " ") + o.name;
      if (!o.value.empty())
        script += fmt::format("        {}) {}; return 0 ;;\n", o.name, bash_values(o));
    }
    script += fmt::format(
        "      esac\n      if [[ $word == -* ]]; then\n"
        "        mapfile -t COMPREPLY < <(compgen -W {} -- \"$word\")\n"
        "      else\n        {}\n      fi\n      ;;\n",
        shell_quoted(names), positional);
  }
  return script + "  esac\n}\n\ncomplete -F _orrery orrery\n";
}

/// Text inside the brackets of an _arguments specification.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_values(const OptionUsage& option) {
  const ValueKind* kind = find_kind(option.value);
  if (kind == nullptr) return fmt::format(":{}: ", zsh_text(option.value));
  if (kind->value == "FILE") return ":file:_files";
  // The blank keeps _arguments from putting words of its own before ours.
  return fmt::format(":{}: _orrery_names {}{}", zsh_text(option.value), kind->value,
                     kind->files ? " files" : "");
}

std::string zsh_specification(const OptionUsage& o) {
  if (o.positional) return shell_quoted("1" + zsh_values(o));
  const std::string meaning = "[" + zsh_text(o.meaning) + "]";
  if (o.value.empty()) return shell_quoted(o.name + meaning);
  return shell_quoted((o.repeatable ? "*" : "") + o.name + "=" + meaning + zsh_values(o));
}

std::string zsh_script(const ProgramUsage& usage) {
  std::string script = kZshOpening;
  script += "  _arguments -C \\\n";
  for (const OptionUsage& o : usage.program.options)
    script += fmt::format("    {} \\\n", zsh_specification(o));
  script +=
      "    '1:command:->command' '*::argument:->argument' && ret=0\n"
      "  case $state in\n    command)\n      local -a commands\n      commands=(\n";
  for (const CommandUsage& c : usage.commands)
    script += fmt::format("        {}\n", shell_quoted(c.name + ":" + zsh_text(c.summary)));
  script += "      )\n      _describe command commands && ret=0\n      ;;\n    argument)\n";
  script += "      case $words[1] in\n";
  for (const CommandUsage& c : usage.commands) {
    script += fmt::format("        {})\n          _arguments", c.name);
    for (const OptionUsage& o : c.options)
      script += fmt::format(" \\\n            {}", zsh_specification(o));
    script += " && ret=0\n          ;;\n";
  }
  return script + "      esac\n      ;;\n  esac\n  return ret\n}\n\n_orrery \"$@\"\n";
}

class CompletionCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("SHELL", shell_, "bash or zsh")->check(CLI::IsMember({"bash", "zsh"}));
    app.add_option("--list", list_,
                   "Instead, print the names that can stand for a VALUE such as DEVICE or "
                   "WORKLOAD, one a line; the scripts ask this")
        ->type_name("VALUE");
    app.footer(
        "Examples:\n"
        "  source <(orrery completion bash)\n"
        "  orrery completion zsh > ~/.zfunc/_orrery    # a folder of $fpath");
  }

  int run() override {
    if (!list_.empty()) {
      const ValueKind* kind = find_kind(list_);
      if (kind == nullptr) {
        std::vector<std::string> known;
        for (const ValueKind& k : value_kinds()) known.push_back(k.value);
        throw_usage(fmt::format("--list: unknown value '{}'{}", list_, suggestion(list_, known)));
      }
      for (const std::string& name : kind->names()) fmt::print("{}\n", name);
      return 0;
    }
    if (shell_.empty()) throw_usage("completion needs a shell: bash or zsh");
    CLI::App app("", "orrery");
    const auto commands = declare_commands(app);
    const ProgramUsage usage = program_usage(app);
    fmt::print("{}", shell_ == "bash" ? bash_script(usage) : zsh_script(usage));
    return 0;
  }

 private:
  std::string shell_, list_;
};

const Registration<Command> kCompletion(
    {.name = "completion",
     .summary = "A script that completes commands, options and names in bash or zsh",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<CompletionCommand>(); });

}  // namespace
}  // namespace orrery
