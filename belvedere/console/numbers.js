// Values as JSON has them and as people read them. Whole numbers of 64 bits do not fit into JavaScript's: they stay as they were written.

const exactly = (_, value, context) =>
  typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value;

export const parseJson = (text) => JSON.parse(text, exactly);
export const isExact = (value) => JSON.isRawJSON?.(value) ?? false;

/** A whole number for JSON, from its text. */
export const wholeNumber = (text) => (Number.isSafeInteger(Number(text)) || !JSON.rawJSON ? Number(text) : JSON.rawJSON(BigInt(text).toString()));

/** A value as plain text. */
export function textOf(value) {
  if (value === null || value === undefined) return "";
  if (isExact(value)) return value.rawJSON;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export const isNumber = (value) => typeof value === "number" || isExact(value);

export function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e5 || Number.isInteger(value)) return new Intl.NumberFormat("en", { notation: size >= 1e6 ? "compact" : "standard", maximumFractionDigits: 1 }).format(value);
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

export function counted(number, noun) {
  return `${short(number)} ${number === 1 ? noun : `${noun}s`}`;
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${short(Math.round(value * 10) / 10)} ${units[unit]}`;
}

/** A duration of so many milliseconds. */
export function duration(milliseconds) {
  const seconds = milliseconds / 1000;
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} days`;
}

export const time = (text) => (text ? text.replace("T", " ").replace(/(\.\d{3})\d+/, "$1").replace("Z", " UTC") : "–");
