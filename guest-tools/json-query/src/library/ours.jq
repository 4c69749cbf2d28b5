# What jq has and jaq's crates have not, as far as queries ask for it.
def @csv:
  [.[] |
    if isstring then "\"" + (split("\"") | join("\"\"")) + "\""
    elif isarray or isobject then error("\(.) cannot stand in a line of CSV")
    elif . == null then "" else tojson end
  ] | join(",");
def @tsv:
  [.[] |
    if isstring then
      reduce ("\\\\", "\tt", "\rr", "\nn") as $pair (.; split($pair[:1]) | join("\\" + $pair[1:]))
    elif isarray or isobject then error("\(.) cannot stand in a line of TSV")
    elif . == null then "" else tojson end
  ] | join("\t");

def IN(values): any(values == .; .);
def IN(source; values): any(source == values; .);
def INDEX(rows; key): reduce rows as $row ({}; .[$row | key | tostring] = $row);
def INDEX(key): INDEX(.[]; key);
