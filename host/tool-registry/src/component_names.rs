//! What a component imports and exports, by name: an artifact's config says it, so that others can find
//! components by it.

use wasmparser::{BinaryReaderError, Encoding, Parser, Payload};

/// The names, in the component's order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ComponentNames {
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
}

/// Reads the names of the outermost component, or says why it is none.
pub(crate) fn read(bytes: &[u8]) -> Result<ComponentNames, String> {
    // An error's text may go on over many lines of hexadecimal digits.
    let broken = |error: BinaryReaderError| error.to_string().lines().next().unwrap_or_default().to_owned();
    let (mut names, mut depth) = (ComponentNames::default(), 0_u32);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(broken)? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err(
                    "it is a core module: `wasm-tools component new` makes a component of it".to_owned()
                );
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    names.imports.push(import.map_err(broken)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    names.exports.push(export.map_err(broken)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(names)
}
