// What the API has, of its own description. Out: `endpoints` (views, templates, subscriptions), `pushes` (inputs that take rows) and `types`.

import { ask } from "./api.js";

const TYPE = "kind name ofType { kind name ofType { kind name ofType { kind name } } }";
const DESCRIBE = `{ __schema {
  queryType { fields { ...Field } } mutationType { fields { ...Field } } subscriptionType { fields { name type { ${TYPE} } } }
  types { kind name description fields { ...Field } inputFields { name description type { ${TYPE} } } } } }
fragment Field on __Field { name description type { ${TYPE} } args { name description defaultValue type { ${TYPE} } } }`;

export const named = (type) => (type.ofType ? named(type.ofType) : type);
export const isRequired = (type) => type.kind === "NON_NULL";
export const isList = (type) => type.kind === "LIST" || (isRequired(type) && isList(type.ofType));
export const written = (type) => (isRequired(type) ? `${written(type.ofType)}!` : type.kind === "LIST" ? `[${written(type.ofType)}]` : type.name);

export const NUMBERS = new Set(["Int", "Long", "Float", "Decimal"]);
export const TIMES = new Set(["DateTime", "Date"]);
const LIST_ARGUMENTS = new Set(["filter", "order", "limit", "offset", "asOf"]);

const STRUCT = "An object in a column.";

let asked = null;

/** The description; it is asked for once. */
export const schema = () => (asked ??= describe().catch((error) => { asked = null; throw error; }));
export const forget = () => { asked = null; };

async function describe() {
  const { data } = await ask(DESCRIBE);
  const types = Object.fromEntries(data.__schema.types.map((t) => [t.name, t]));
  const roots = data.__schema.queryType.fields;
  const events = new Set((data.__schema.subscriptionType?.fields ?? []).filter((f) => !isList(f.type)).map((f) => f.name));
  const endpoints = Object.fromEntries(roots.filter((f) => isList(f.type)).map((f) => [f.name, endpoint(f, types, roots, events)]));
  const pushes = Object.fromEntries((data.__schema.mutationType?.fields ?? []).map((f) => [f.name, push(f, types)]));
  return { types, endpoints, pushes };
}

function endpoint(field, types, roots, events) {
  const type = types[named(field.type).name];
  const isStruct = (f) => types[named(f.type).name].description === STRUCT;
  const isLeaf = (f) => isStruct(f) || !types[named(f.type).name].fields;
  const selection = (f) => (isStruct(f) ? `${f.name} { ${types[named(f.type).name].fields.map(selection).join(" ")} }` : f.name);
  const structs = new Set(type.fields.filter(isStruct).map((f) => f.name));
  const argument = (name) => field.args.find((a) => a.name === name);
  const most = Number(/At most (\d+)/.exec(argument("limit")?.description ?? "")?.[1] ?? 1000);
  const filter = argument("filter") && types[named(argument("filter").type).name];
  const page = roots.find((r) => r.name === `${field.name}Page`);
  return {
    name: field.name, title: type.name, doc: field.description ?? type.description, most,
    filterType: filter?.name, orderType: argument("order") && named(argument("order").type).name,
    columns: type.fields.filter(isLeaf).map((f) => ({ name: f.name, selection: selection(f), type: isStruct(f) ? "JSON" : named(f.type).name, written: written(f.type), doc: f.description })),
    relations: type.fields.filter((f) => !isLeaf(f)).map((f) => ({ name: f.name, type: named(f.type).name, list: isList(f.type), doc: f.description })),
    parameters: field.args.filter((a) => !LIST_ARGUMENTS.has(a.name)),
    operators: (column) => (structs.has(column) ? ["isNull"] : operatorsOf(filter, column, types)),
    hasPages: Boolean(page), countsRows: Boolean(page && types[named(page.type).name].fields.some((f) => f.name === "totalCount")),
    byKey: roots.find((r) => r.name === `${field.name}ByKey`),
    hasEvents: events.has(field.name),
  };
}

function operatorsOf(filter, column, types) {
  const found = filter?.inputFields.find((f) => f.name === column && !["and", "or", "not"].includes(column));
  return found ? types[named(found.type).name].inputFields.map((f) => f.name) : [];
}

function push(field, types) {
  const row = types[named(field.args.find((a) => a.name === "rows").type).name];
  const answer = types[named(field.type).name].fields.find((f) => f.name === "results");
  const told = types[named(answer.type).name].fields.find((f) => f.name === "row");
  const columns = row.inputFields.map((f) => ({ name: f.name, type: named(f.type).name, written: written(f.type), required: isRequired(f.type), doc: f.description }));
  return { name: field.name, doc: field.description, rowType: row.name, columns, told: types[named(told.type).name].fields.map((f) => f.name) };
}
