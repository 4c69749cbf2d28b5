//! The names that every script finds.

use boa_engine::property::Attribute;
use boa_engine::{Context, JsObject, JsResult, JsString};

/// Makes a global that is not listed among an object's keys.
pub(crate) fn define(name: JsString, value: JsObject, context: &mut Context) -> JsResult<()> {
    context.register_global_property(name, value, Attribute::WRITABLE | Attribute::CONFIGURABLE)
}

/// An object among the globals.
pub(crate) fn get(name: JsString, context: &mut Context) -> JsResult<JsObject> {
    context.global_object().get(name, context)?.to_object(context)
}
