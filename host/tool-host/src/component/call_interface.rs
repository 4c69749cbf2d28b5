//! How the tools of a component are called: by the contract, as JSON text, or by the typed functions that it
//! exports, whose arguments and answers `typed/` maps to JSON and back.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_client::{RemoteTool, Server, ToolList};
use serde_json::Value;
use wasmtime::component::{Component as Code, ComponentExportIndex, InstancePre, Val};
use wasmtime::{Engine, Store};

use crate::bindings::AnyToolPre;
use crate::bindings::exports::agent::tool::tool::{Failure, ToolDef};
use crate::capability::state::CallState;
use crate::error::{LoadError, detail};
use crate::limits::Transfer;
use crate::limits::progress::Progress;
use crate::typed::{self, Mismatch, TypedTool};

pub(crate) enum CallInterface {
    /// `agent:tool/tool`.
    Contract(AnyToolPre<CallState>),
    /// Functions of its own, by the names of their tools.
    Typed { pre: InstancePre<CallState>, functions: BTreeMap<String, TypedFunction> },
    /// Tools of an MCP server, which is asked over its protocol: there is no component.
    Mcp { server: Arc<Server>, tools: ToolList },
}

/// A server's tool as components describe theirs.
fn describe_remote((name, tool): (&String, &RemoteTool)) -> ToolDef {
    ToolDef {
        name: name.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.to_string(),
        output_schema: tool.output_schema.as_ref().map(Value::to_string),
        hints: tool.hints.clone(),
    }
}

/// A function that is a tool.
pub(crate) struct TypedFunction {
    tool: TypedTool,
    index: ComponentExportIndex,
}

/// A call with its arguments as the component takes them.
pub(crate) enum Prepared<'a> {
    Contract { pre: &'a AnyToolPre<CallState>, tool: &'a str, arguments: &'a str },
    Typed { pre: &'a InstancePre<CallState>, function: &'a TypedFunction, parameters: Vec<Val> },
}

pub(crate) enum Returned {
    /// JSON text.
    Value(String),
    /// A failure that the tool itself told.
    Failure(Failure),
    /// Something that cannot be told as JSON.
    Mismatch(Mismatch),
}

impl CallInterface {
    /// The contract, of a component that was linked.
    pub(crate) fn contract(pre: InstancePre<CallState>) -> Result<Self, LoadError> {
        AnyToolPre::new(pre).map(Self::Contract).map_err(|error| LoadError::Link(detail(&error)))
    }

    /// The typed functions of a component that was linked, under other names where `rename` has one. `bytes`
    /// is the component, for its documentation. Computes for as long as its types are large.
    pub(crate) fn typed(
        engine: &Engine,
        code: &Code,
        bytes: &[u8],
        pre: InstancePre<CallState>,
        rename: &BTreeMap<String, String>,
    ) -> Result<Self, LoadError> {
        let tools = typed::read(&code.component_type(), engine, bytes)
            .map_err(|refusal| LoadError::Typed(refusal.to_string()))?;
        let mut functions = BTreeMap::new();
        for tool in tools {
            let instance = tool.export.interface.as_deref();
            let instance = instance.and_then(|name| code.get_export_index(None, name));
            let index = code.get_export_index(instance.as_ref(), &tool.export.function);
            let gone = || LoadError::Typed(format!("the function of {} is not among its exports", tool.name));
            let index = index.ok_or_else(gone)?;
            functions.insert(tool.name.clone(), TypedFunction { tool, index });
        }
        let functions = renamed(functions, rename)?;
        Ok(Self::Typed { pre, functions })
    }

    /// The tools, as types describe them, or the component that has to be asked.
    pub(crate) fn described(&self) -> Result<Vec<ToolDef>, &AnyToolPre<CallState>> {
        match self {
            Self::Contract(pre) => Err(pre),
            Self::Typed { functions, .. } => Ok(functions.values().map(TypedFunction::describe).collect()),
            Self::Mcp { tools, .. } => Ok(tools.tools().map(describe_remote).collect()),
        }
    }

    pub(crate) fn is_mcp(&self) -> bool {
        matches!(self, Self::Mcp { .. })
    }

    /// Whether it can be called: a server may not have been there yet.
    pub(crate) fn has_answered(&self) -> bool {
        match self {
            Self::Contract(_) | Self::Typed { .. } => true,
            Self::Mcp { server, .. } => server.has_answered(),
        }
    }

    /// How what a tool returns moves to the host.
    pub(crate) fn transfer(&self, tool: &str) -> Transfer {
        match self {
            Self::Contract(_) | Self::Mcp { .. } => Transfer::Text,
            Self::Typed { functions, .. } => match functions.get(tool) {
                Some(function) if !function.tool.returns_flags() => Transfer::Values,
                _ => Transfer::Flags,
            },
        }
    }

    /// The arguments of a tool as rules of the policy are held against them: what the component reads as a
    /// number is one.
    pub(crate) fn for_rules<'a>(&self, tool: &str, arguments: &'a Value) -> Cow<'a, Value> {
        let function = match self {
            Self::Typed { functions, .. } => functions.get(tool),
            Self::Contract(_) | Self::Mcp { .. } => None,
        };
        function
            .map_or(Cow::Borrowed(arguments), |function| Cow::Owned(function.tool.with_numbers(arguments)))
    }

    /// A call, or what is wrong with its arguments. Absent if there is no such tool.
    pub(crate) fn prepare<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a str,
    ) -> Option<Result<Prepared<'a>, Mismatch>> {
        match self {
            Self::Contract(pre) => Some(Ok(Prepared::Contract { pre, tool, arguments })),
            Self::Typed { pre, functions } => {
                let function = functions.get(tool)?;
                // The arguments have been checked against the schema; they were JSON before they were text.
                let arguments = serde_json::from_str(arguments).unwrap_or(Value::Null);
                let parameters = function.tool.encode(&arguments);
                Some(parameters.map(|parameters| Prepared::Typed { pre, function, parameters }))
            }
            // No guest runs for it.
            Self::Mcp { .. } => None,
        }
    }
}

/// Gives tools the names that the policy has for them.
fn renamed(
    mut functions: BTreeMap<String, TypedFunction>,
    rename: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, TypedFunction>, LoadError> {
    let names = functions.keys().cloned().collect::<Vec<_>>().join(", ");
    let mut taken = Vec::with_capacity(rename.len());
    for (old, new) in rename {
        let problem = || LoadError::Renamed(format!("it has no tool {old:?}: its tools are {names}"));
        let mut function = functions.remove(old).ok_or_else(problem)?;
        function.tool.name.clone_from(new);
        taken.push(function);
    }
    for function in taken {
        let name = function.tool.name.clone();
        if functions.insert(name.clone(), function).is_some() {
            return Err(LoadError::Renamed(format!(
                "it has another tool {name:?} already: take another name"
            )));
        }
    }
    Ok(functions)
}

impl TypedFunction {
    fn describe(&self) -> ToolDef {
        ToolDef {
            name: self.tool.name.clone(),
            description: self.tool.description.clone(),
            input_schema: self.tool.input_schema.to_string(),
            output_schema: Some(self.tool.output_schema.to_string()),
            // Types say nothing of what a call does.
            hints: vec![],
        }
    }
}

impl Prepared<'_> {
    /// Makes an instance and calls the tool.
    pub(crate) async fn call(
        self,
        store: &mut Store<CallState>,
        progress: &Progress,
    ) -> wasmtime::Result<Returned> {
        match self {
            Self::Contract { pre, tool, arguments } => {
                let instance = pre.instantiate_async(&mut *store).await?;
                progress.instantiated();
                let returned = instance.agent_tool_tool().call_call(store, tool, arguments).await?;
                Ok(match returned {
                    Ok(output) => Returned::Value(output.value),
                    Err(failure) => Returned::Failure(failure),
                })
            }
            Self::Typed { pre, function, parameters } => {
                let instance = pre.instantiate_async(&mut *store).await?;
                progress.instantiated();
                let Some(callee) = instance.get_func(&mut *store, function.index) else {
                    return Err(wasmtime::Error::msg("the function is not among the instance's exports"));
                };
                let mut results = function.tool.results();
                callee.call_async(&mut *store, &parameters, &mut results).await?;
                Ok(match function.tool.decode(&results) {
                    Ok(Ok(value)) => Returned::Value(value.to_string()),
                    Ok(Err(failed)) => Returned::Failure(Failure {
                        code: failed.code.unwrap_or_else(|| "failed".into()),
                        message: failed.message,
                        meta: vec![],
                    }),
                    Err(mismatch) => Returned::Mismatch(mismatch),
                })
            }
        }
    }
}
