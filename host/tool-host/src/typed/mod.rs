//! Typed tools: what a component exports that was built for another host, mapped to JSON Schema and back.
//!
//! [`read()`] turns each exported function into a [`TypedTool`]. A call is [`TypedTool::encode`] (arguments
//! to values), the function itself with [`TypedTool::results`] for its answer, then [`TypedTool::decode`].
//! Arguments are an object with a member for each parameter; the mapping is the same in both directions:
//!
//! | WIT | JSON |
//! |---|---|
//! | `bool`, `string`, `char` | boolean, string, string of one character |
//! | `u8` to `u32`, `s8` to `s32` | integer |
//! | `u64`, `s64` | integer, or decimal string; we write the string where the number is above 2^53 in size |
//! | `f32`, `f64` | number; NaN and infinities are refused |
//! | `list<u8>` | base64 string |
//! | other lists, tuples | array |
//! | `map<string, T>`, other maps | object, array of `[key, value]` |
//! | record | object; a field that is an option may be absent |
//! | variant | `{"case": value}`, or `"case"` for a case without a value |
//! | enum, flags | string, array of strings |
//! | `option<T>` | null, or `T`; `{"some": T}` where `T` is an option itself |
//! | `result<T, E>` | the variant of `ok` and `err`; as what a function returns, the answer or the tool's failure |
//!
//! What JSON cannot carry (resources, streams, futures, `async` functions, error contexts) refuses the
//! component, by the name of the function and the place in it.
//!
//! Everything here is a stranger's: types are read within a budget of depth and number (`wit_type`), schemas
//! are bounded in bytes (`schema`), texts are shown only as far as they can be seen and are never a reason to
//! refuse (`docs`), and no argument and no answer can make `encode` and `decode` panic. What is elsewhere:
//! arguments are held against the schema by `definition`, time, memory and output are bounded by whoever
//! calls the function.

mod decode;
mod docs;
mod encode;
mod mismatch;
mod named;
mod names;
mod numbers;
mod read;
mod refusal;
#[cfg(any(test, feature = "testing"))]
mod samples;
mod schema;
#[cfg(feature = "testing")]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tool;
mod wit_type;

pub(crate) use mismatch::Mismatch;
pub(crate) use read::{imports_of_types, read};
pub(crate) use tool::TypedTool;
