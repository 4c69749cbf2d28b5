//! The export macros: `export!` for functions is all that most tools need. It is made of `tools!`, which
//! turns functions into a [`Component`], and `export_component!`, which shows a component to the host.
//!
//! [`Component`]: crate::Component

use crate::Failure;

/// Makes functions the tools of this component.
///
/// Each line is a doc comment (what the model reads), then `function(Args) -> Answer`, then optionally
/// `hints: […]` and `timeout_ms: …`. The function's name is the tool's name and is checked when it compiles;
/// its shape is `fn(Args) -> Result<Answer, Failure>`, or with an error type of the tool's own that is
/// `Into<Failure>`.
///
/// Hints are promises that the host acts on:
///
/// * `read_only`: a call changes nothing, so it may run beside others and be repeated.
/// * `idempotent`: the same call again changes nothing more, so it may be repeated.
/// * `pure`: the answer depends on the arguments and on nothing else, so it may be kept and given again. It
///   counts only for a component that imports nothing but the log: neither a clock nor a search can be pure.
/// * `destructive`: a call may lose something, so it is never repeated.
/// * `never_asks`: a call asks nobody, although the component can, so it may be repeated and nothing of it is
///   recorded.
/// * `timeout_ms: N`: a call is done after N milliseconds or may be interrupted. It can shorten the host's
///   limit, never lengthen it.
///
/// The macro makes a type `Tools` that implements [`Component`](crate::Component), for tests that want to see
/// the description or make a call as the host makes it.
///
/// What the contract does not allow does not compile, be it a name, a hint or a tool without a description:
///
/// ```compile_fail
/// # use agent_tool_sdk::{Failure, NoArguments};
/// # fn Shout(_: NoArguments) -> Result<String, Failure> { Ok(String::new()) }
/// # fn main() {}
/// agent_tool_sdk::export! {
///     /// A tool's name has no capitals.
///     Shout(NoArguments) -> String;
/// }
/// ```
/// ```compile_fail
/// # use agent_tool_sdk::{Failure, NoArguments};
/// # fn wait(_: NoArguments) -> Result<String, Failure> { Ok(String::new()) }
/// # fn main() {}
/// agent_tool_sdk::export! {
///     /// There is no such hint.
///     wait(NoArguments) -> String, hints: [harmless];
/// }
/// ```
/// ```compile_fail
/// # use agent_tool_sdk::{Failure, NoArguments};
/// # fn wait(_: NoArguments) -> Result<String, Failure> { Ok(String::new()) }
/// # fn main() {}
/// agent_tool_sdk::export! {
///     wait(NoArguments) -> String;
/// }
/// ```
#[macro_export]
macro_rules! export {
    ($($tools:tt)+) => {
        $crate::tools! { $($tools)+ }
        $crate::export_component!(Tools);
    };
}

/// Turns functions into a type `Tools` that implements [`Component`](crate::Component), written as for
/// [`export!`].
///
/// For a component that adds to what functions can say: it can hand on to `Tools`, and goes to
/// [`export_component!`](crate::export_component!) in its place.
#[macro_export]
macro_rules! tools {
    ($(
        $(#[doc = $doc:expr])*
        $tool:ident($args:ty) -> $answer:ty
        $(, hints: [$($hint:ident),* $(,)?])?
        $(, timeout_ms: $timeout_ms:literal)?
        ;
    )+) => {
        /// The tools of this component, as the host sees them.
        #[derive(Debug)]
        pub(crate) struct Tools;

        impl $crate::Component for Tools {
            fn describe() -> Vec<$crate::ToolDef> {
                vec![$({
                    $crate::require_description!($tool: $($doc)*);
                    const { assert!(
                        $crate::is_tool_name(stringify!($tool)),
                        "a tool's name is a lower-case letter and then up to 62 of a-z, 0-9 and _",
                    ) }
                    $crate::describe_tool::<$args, $answer>(
                        stringify!($tool),
                        &$crate::private::join_doc_lines(&[$($doc),*]),
                        &[
                            $($($crate::hint!($hint),)*)?
                            $(("timeout-ms", { const _: u64 = $timeout_ms; stringify!($timeout_ms) }),)?
                        ],
                    )
                }),+]
            }

            fn call(name: String, arguments: String) -> Result<$crate::Output, $crate::Failure> {
                match name.as_str() {
                    $(stringify!($tool) => $crate::private::run_tool::<$args, $answer, _>($tool, &arguments),)+
                    _ => Err($crate::private::refuse_unknown_tool(&name, &[$(stringify!($tool)),+])),
                }
            }
        }
    };
}

/// Makes a hand-written [`Component`](crate::Component) what the host sees.
#[macro_export]
macro_rules! export_component {
    ($component:ident) => {
        const _: fn() -> Vec<$crate::ToolDef> = <$component as $crate::Component>::describe;

        // Only there for wasm32: a linker for another target would take the names of these exports amiss.
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            struct Guest;

            impl $crate::bindings::exports::agent::tool::tool::Guest for Guest {
                fn describe() -> Vec<$crate::ToolDef> {
                    $crate::private::watch_for_panics();
                    <$component as $crate::Component>::describe()
                }

                fn call(name: String, arguments: String) -> Result<$crate::Output, $crate::Failure> {
                    $crate::private::watch_for_panics();
                    <$component as $crate::Component>::call(name, arguments)
                }
            }

    $crate::bindings::export_guest!(Guest with_types_in $crate::bindings);
        };
    };
}

/// The doc comment of a tool of [`export!`]; without one it does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! require_description {
    ($tool:ident:) => {
        compile_error!(concat!(
            "the tool `",
            stringify!($tool),
            "` has no description: write above it, as a doc comment (`/// …`), what it does and when to use it; \
             the model chooses by that"
        ))
    };
    ($tool:ident: $($doc:expr)+) => {};
}

/// One hint of [`export!`]; an unknown one does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! hint {
    (read_only) => {
        ("read-only", "true")
    };
    (idempotent) => {
        ("idempotent", "true")
    };
    (pure) => {
        ("pure", "true")
    };
    (destructive) => {
        ("destructive", "true")
    };
    (never_asks) => {
        ("asks", "false")
    };
    ($other:ident) => {
        compile_error!(concat!(
            "unknown hint `",
            stringify!($other),
            "`: it is one of read_only, idempotent, pure, destructive, never_asks"
        ))
    };
}

/// The failure for a name that is none of this component's tools.
pub fn refuse_unknown_tool(name: &str, tools: &[&str]) -> Failure {
    Failure::not_found(format!("there is no tool `{name}` here, only: {}", tools.join(", ")))
}
