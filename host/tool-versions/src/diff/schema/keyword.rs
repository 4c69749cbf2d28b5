//! The keywords of JSON Schema, by how they are compared.

/// Keywords that are compared, and keywords that only hold parts which others refer to. Every other one is a
/// text that no value is held against, as `format` is for this host.
pub(super) const COMPARED: [&str; 31] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "definitions",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "type",
    "unevaluatedProperties",
    "uniqueItems",
];

/// Keywords whose difference says nothing of which values match.
pub(super) const UNDECIDABLE: [&str; 14] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveRef",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "not",
    "then",
    "unevaluatedItems",
];

/// Keywords that may stand beside a reference without saying anything of a value.
pub(super) const ANNOTATED_BY_REFERENCE: [&str; 3] = ["$defs", "$ref", "definitions"];
