# What jq has and jaq's crates have not, as far as queries ask for it, and what jaq does otherwise.
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

# jaq deletes one after the other, so that what is behind has moved when its turn comes. From the last path to
# the first nothing has; where places are counted from the end or are slices, that order is not theirs.
def delpaths($paths):
  def without($keys):
    if isarray and ($keys | all(isnumber or isobject)) then
      length as $length
      | def place: if . < 0 then . + $length else . end;
        def places: if isobject then range(.start // 0 | place; .end // $length | place) else place end;
        (reduce ($keys[] | places) as $place ({}; .[$place | tostring] = true)) as $gone
      | [to_entries[] | select($gone[.key | tostring] | not).value]
    else reduce $keys[] as $key (.; .[$key] |= empty)
    end;
  if $paths | any(. == []) then null
  elif $paths | all(.[-1] | isstring or (isnumber and . >= 0)) then
    reduce ($paths | unique | reverse[]) as $path (.;
      (try (getpath($path[:-1]) | . == null or (has($path[-1]) | not)) catch false) as $is_away
      | if $is_away then . else getpath($path) |= empty end)
  else
    reduce ($paths | group_by(.[:-1]) | reverse[]) as $group (.;
      $group[0][:-1] as $way
      | if getpath($way) == null then . else getpath($way) |= without([$group[][-1]]) end)
  end;
# Keys of objects do not move, and jaq is ten times faster; it fails where there is nothing to delete. Many
# paths are what a `select` leaves, and those jaq deletes well.
def del(f):
  . as $all
  | [path(f)] as $paths
  | if $paths[0] == [] then null
    elif $paths[100] then f |= empty
    elif $paths[1] and ([$paths[][] | isstring] | index(false)) then delpaths($paths)
    else try (f |= empty) catch ($all | delpaths($paths))
    end;

# jaq writes null.
def join($between):
  [.[] | if . == null then "" else tostring end] | .[:-1][] += $between | add // "";

# jaq knows the name `key` only, and writes it as it is.
def from_entries:
  reduce (.[] | {
    (if .key == null then .k // .name // .Name // .K // .Key else .key end | if isstring then . else tojson end):
      (if has("value") then .value elif has("v") then .v else .Value end)
  }) as $entry ({}; . + $entry);
def with_entries(f): to_entries | map(f) | from_entries;
