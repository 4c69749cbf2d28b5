//! The object `tools`: a function for each of the run's other tools.

use std::cell::Cell;
use std::rc::Rc;

use boa_engine::object::FunctionObjectBuilder;
use boa_engine::object::builtins::JsProxy;
use boa_engine::property::PropertyKey;
use boa_engine::{
    Context, JsArgs, JsError, JsNativeError, JsObject, JsResult, JsString, JsValue, NativeFunction, js_string,
};

use crate::errors::{TOOL_ERROR, UNKNOWN_TOOL};
use crate::globals;
use crate::json;
use crate::toolbox::{ToolFailure, Tools};

/// The most arguments of one call, in bytes of JSON: more than any host lets through.
const MOST_ARGUMENT_BYTES: usize = 16 << 20;

/// The tools, and how often they were called.
pub(crate) struct Calls {
    tools: Rc<dyn Tools>,
    object: JsObject,
    made: Cell<usize>,
}

impl Calls {
    /// Puts `tools` where scripts find it.
    pub(crate) fn install(tools: Rc<dyn Tools>, context: &mut Context) -> JsResult<()> {
        let object = JsObject::with_object_proto(context.intrinsics());
        for name in tools.names() {
            let name = JsString::from(name);
            let call = NativeFunction::from_copy_closure_with_captures(call_tool, name.clone());
            let call = FunctionObjectBuilder::new(context.realm(), call).name(name.clone()).length(1).build();
            object.create_data_property_or_throw(name, call, context)?;
        }
        let object: JsObject = JsProxy::builder(object).get(get_tool).build(context)?.into();
        globals::define(js_string!("tools"), object.clone(), context)?;
        context.insert_data(Self { tools, object, made: Cell::new(0) });
        Ok(())
    }

    /// The object, whatever the script has made of its name.
    pub(crate) fn object(context: &Context) -> JsValue {
        context.get_data::<Self>().map_or_else(JsValue::undefined, |calls| calls.object.clone().into())
    }

    /// The calls so far that had an answer.
    pub(crate) fn made(context: &Context) -> usize {
        context.get_data::<Self>().map_or(0, |calls| calls.made.get())
    }
}

/// Looks a tool up, and refuses a name that is none. Whether there is one can be asked with `in`.
fn get_tool(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let target = arguments.get_or_undefined(0).to_object(context)?;
    let key = arguments.get_or_undefined(1).to_property_key(context)?;
    let value = target.get(key.clone(), context)?;
    match &key {
        // `await tools` asks for `then`, and `JSON.stringify(tools)` for `toJSON`.
        PropertyKey::String(name) if value.is_undefined() && *name != "then" && *name != "toJSON" => {
            let name = name.to_std_string_lossy();
            let names = match context.get_data::<Calls>() {
                Some(calls) => calls.tools.names(),
                None => Vec::new(),
            };
            let message = if names.is_empty() {
                format!("there is no tool `{name}`: no tool can be called from scripts here")
            } else {
                format!("there is no tool `{name}`, only: {}", names.join(", "))
            };
            Err(tool_error(&name, &ToolFailure { code: UNKNOWN_TOOL.to_owned(), message }, context))
        }
        _ => Ok(value),
    }
}

/// Calls a tool: its arguments as JSON, its answer as a value.
fn call_tool(
    _: &JsValue,
    arguments: &[JsValue],
    name: &JsString,
    context: &mut Context,
) -> JsResult<JsValue> {
    let name = name.to_std_string_lossy();
    let Some(tools) = context.get_data::<Calls>().map(|calls| Rc::clone(&calls.tools)) else {
        return Err(JsNativeError::error().with_message("there are no tools").into());
    };
    let text = match arguments {
        [] => "{}".to_owned(),
        [only] if only.is_undefined() => "{}".to_owned(),
        [only] if is_plain_object(only) => json::write(only, MOST_ARGUMENT_BYTES, context)
            .map_err(|refusal| refusal.into_error(&format!("the arguments of `{name}`")))?,
        _ => {
            return Err(JsNativeError::typ()
                .with_message(format!(
                    "`{name}` takes one object, with its arguments by name: tools.{name}({{…}})"
                ))
                .into());
        }
    };
    match tools.call(&name, &text) {
        Ok(answer) => {
            if let Some(calls) = context.get_data::<Calls>() {
                calls.made.set(calls.made.get() + 1);
            }
            json::read(&answer, context)
        }
        Err(failure) => Err(tool_error(&name, &failure, context)),
    }
}

fn is_plain_object(value: &JsValue) -> bool {
    value.as_object().is_some_and(|object| !object.is_callable() && !object.is_array())
}

/// What a failed call throws: an error that says which tool, with its code and its words.
fn tool_error(tool: &str, failure: &ToolFailure, context: &mut Context) -> JsError {
    let make = |context: &mut Context| {
        let error: JsError = JsNativeError::error().with_message(failure.message.clone()).into();
        let value = error.into_opaque(context)?;
        let object = value.to_object(context)?;
        object.create_data_property_or_throw(js_string!("name"), js_string!(TOOL_ERROR), context)?;
        object.create_data_property_or_throw(js_string!("tool"), JsString::from(tool), context)?;
        object.create_data_property_or_throw(
            js_string!("code"),
            JsString::from(failure.code.as_str()),
            context,
        )?;
        Ok(JsError::from_opaque(value))
    };
    make(context).unwrap_or_else(|error| error)
}
