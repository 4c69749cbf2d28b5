//! From a loaded component to its tools.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use wasmtime::Engine;
use wasmtime::component::Type;
use wasmtime::component::types::{Component, ComponentFunc, ComponentInstance, ComponentItem};

use super::docs::{PackageDocs, TypeDocs};
use super::names::{self, Export};
use super::refusal::Refusal;
use super::schema::Schemas;
use super::tool::TypedTool;
use super::wit_type::{Fault, FaultKind, Field, TypeReader, WitType};

/// Most functions of one component, as many as a component of the contract may describe.
const MOST_TOOLS: usize = 64;

/// Longest schema of arguments or of an answer, in bytes.
const SCHEMA_BYTES: usize = 16 << 10;

/// The functions that a component exports, by itself or in interfaces, as tools. `bytes` is the component as
/// it was compiled, for its documentation. Exports that are of WASI or of our own contract are passed over.
pub(crate) fn read(component: &Component, engine: &Engine, bytes: &[u8]) -> Result<Vec<TypedTool>, Refusal> {
    let functions = functions(component, engine)?;
    if functions.is_empty() {
        let exports: Vec<_> = component.exports(engine).map(|(name, _)| name).collect();
        return Err(Refusal::NoFunction(names::some(exports.into_iter())));
    }
    let documentation = Documentation::read(component, engine, bytes);
    let mut reader = TypeReader::default();
    let mut taken = BTreeMap::new();
    let mut tools = Vec::with_capacity(functions.len());
    for (export, function) in functions {
        let name = name(&export)?;
        if let Some(first) = taken.insert(name.clone(), names::shown(&export)) {
            return Err(Refusal::Collision { first, second: names::shown(&export), name });
        }
        let (parameters, result) = signature(&mut reader, &export, &function)?;
        tools.push(documentation.tool(name, export, parameters, result)?);
    }
    Ok(tools)
}

/// The imports that are interfaces of types alone: nobody has to answer them, so they need no grant. An
/// exported interface that takes types from another one imports that, whether or not it calls anything.
pub(crate) fn imports_of_types(component: &Component, engine: &Engine) -> BTreeSet<String> {
    let is_type = |item: ComponentItem| matches!(item, ComponentItem::Type(_));
    let imports = component.imports(engine).filter(|(_name, import)| match &import.ty {
        ComponentItem::ComponentInstance(instance) => {
            instance.exports(engine).all(|(_name, item)| is_type(item.ty))
        }
        ComponentItem::Type(_) => true,
        _ => false,
    });
    imports.map(|(name, _import)| name.to_owned()).collect()
}

fn functions(component: &Component, engine: &Engine) -> Result<Vec<(Export, ComponentFunc)>, Refusal> {
    let mut found = Vec::new();
    let mut add = |interface: Option<&str>, name: &str, function: ComponentFunc| {
        let export = Export { interface: interface.map(str::to_owned), function: name.to_owned() };
        if names::is_of_toolchain(&export, &function) {
            return Ok(());
        }
        if found.len() == MOST_TOOLS {
            return Err(Refusal::TooManyTools { most: MOST_TOOLS });
        }
        found.push((export, function));
        Ok(())
    };
    let exports = component.exports(engine).filter(|(name, _)| !names::is_other_contract(name));
    for (name, export) in exports {
        match export.ty {
            ComponentItem::ComponentFunc(function) => add(None, name, function)?,
            ComponentItem::ComponentInstance(instance) => {
                if is_renamed_contract(&instance, engine) {
                    return Err(Refusal::RenamedContract(names::some([name].into_iter())));
                }
                for (function, export) in instance.exports(engine) {
                    if let ComponentItem::ComponentFunc(found) = export.ty {
                        add(Some(name), function, found)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Tells if an interface has the contract's functions and no others: then its author meant the contract, and
/// exported a copy of it under a name of their own.
fn is_renamed_contract(instance: &ComponentInstance, engine: &Engine) -> bool {
    let mut functions = BTreeMap::new();
    for (name, export) in instance.exports(engine) {
        if let ComponentItem::ComponentFunc(function) = export.ty {
            functions.insert(name.to_owned(), function);
        }
    }
    let (Some(describe), Some(call)) = (functions.get("describe"), functions.get("call")) else {
        return false;
    };
    let mut texts = call.params().map(|(_, ty)| matches!(ty, Type::String));
    let takes_two_texts = call.params().len() == 2 && texts.all(|is_text| is_text);
    functions.len() == 2 && describe.params().len() == 0 && takes_two_texts
}

fn name(export: &Export) -> Result<String, Refusal> {
    // `[method]counter.get` and the like. Those without a handle among their types have nothing else that
    // says so.
    if export.function.starts_with('[') {
        let function = names::shown(export);
        return Err(Refusal::Unsupported { function, what: "a resource", place: "the name".to_owned() });
    }
    names::tool(export)
}

fn signature(
    reader: &mut TypeReader,
    export: &Export,
    function: &ComponentFunc,
) -> Result<(Vec<Field>, Option<WitType>), Refusal> {
    if function.async_() {
        return Err(Refusal::Async { function: names::shown(export) });
    }
    let read = |reader: &mut TypeReader| {
        let parameters = function.params().map(|(name, ty)| reader.field("parameter", name, &ty, 0));
        let parameters = parameters.collect::<Result<_, _>>()?;
        let result = function.results().next().map(|ty| reader.read(&ty, 0));
        let result = result.transpose().map_err(|fault| fault.within("the result"))?;
        Ok((parameters, result))
    };
    read(reader).map_err(|fault: Fault| refused(&fault, export))
}

fn refused(fault: &Fault, export: &Export) -> Refusal {
    let (function, place) = (names::shown(export), fault.place());
    match fault.kind {
        FaultKind::Unsupported(what) => Refusal::Unsupported { function, what, place },
        FaultKind::TooDeep => Refusal::TooDeep { function, place },
        FaultKind::TooManyParts => Refusal::TooManyParts { function },
        FaultKind::LongLabel => Refusal::LongLabel { function, place },
    }
}

/// What the component's authors wrote, for the texts of its tools.
struct Documentation {
    package: PackageDocs,
    types: TypeDocs,
}

impl Documentation {
    fn read(component: &Component, engine: &Engine, bytes: &[u8]) -> Self {
        let package = PackageDocs::read(bytes);
        let types = type_docs(component, engine, &package);
        Self { package, types }
    }

    fn tool(
        &self,
        name: String,
        export: Export,
        parameters: Vec<Field>,
        result: Option<WitType>,
    ) -> Result<TypedTool, Refusal> {
        let input_schema = self.schema(&export, |schemas| schemas.members(&parameters))?;
        let output_schema = self.schema(&export, |schemas| match &result {
            None | Some(WitType::Result { ok: None, .. }) => json!({ "type": "null" }),
            Some(WitType::Result { ok: Some(ok), .. }) => schemas.of(ok),
            Some(other) => schemas.of(other),
        })?;
        let description = self.description(&export);
        Ok(TypedTool { name, description, input_schema, output_schema, export, parameters, result })
    }

    /// A schema with what is said of its types, or without where that makes it too long: words are no reason
    /// to refuse.
    fn schema(&self, export: &Export, schema: impl Fn(Schemas<'_>) -> Value) -> Result<Value, Refusal> {
        let described = schema(Schemas { docs: Some(&self.types) });
        if described.to_string().len() <= SCHEMA_BYTES {
            return Ok(described);
        }
        let bare = schema(Schemas { docs: None });
        match bare.to_string().len() {
            bytes if bytes > SCHEMA_BYTES => {
                Err(Refusal::LongSchema { function: names::shown(export), bytes, most: SCHEMA_BYTES })
            }
            _ => Ok(bare),
        }
    }

    fn description(&self, export: &Export) -> String {
        let interface = export.interface.as_deref();
        if let Some(text) = self.package.function(interface, &export.function) {
            return text;
        }
        let plain = format!("Calls {}.", names::shown(export));
        match interface.map_or_else(|| self.package.world(), |interface| self.package.interface(interface)) {
            Some(around) => format!("{plain} {around}"),
            None => plain,
        }
    }
}

/// What is said of the types that instances and the world name, imported ones too: an exported interface
/// takes its types from one that is imported as often as not.
fn type_docs(component: &Component, engine: &Engine, docs: &PackageDocs) -> TypeDocs {
    let mut types = TypeDocs::default();
    let mut reader = TypeReader::default();
    let mut add = |instance: Option<&str>, name: &str, ty: &Type| {
        // Types are only read where something is said of them. What cannot be read is no tool's.
        if let Some(doc) = docs.named_type(instance, name)
            && let Ok(ty) = reader.read(ty, 0)
        {
            types.add(ty, doc);
        }
    };
    let items = component.imports(engine).chain(component.exports(engine));
    for (name, item) in items.filter(|(name, _)| !names::is_other_contract(name)) {
        match item.ty {
            ComponentItem::Type(ty) => add(None, name, &ty),
            ComponentItem::ComponentInstance(instance) => {
                for (type_name, item) in instance.exports(engine) {
                    if let ComponentItem::Type(ty) = item.ty {
                        add(Some(name), type_name, &ty);
                    }
                }
            }
            _ => {}
        }
    }
    types
}
