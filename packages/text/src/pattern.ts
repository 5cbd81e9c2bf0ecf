/** Whether `name` is what the pattern names: the name itself, or a prefix followed by `*`. */
export const matchesPattern = (pattern: string, name: string): boolean =>
  pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern

/** The one name that patterns stand for; undefined where they may stand for none or several. */
export const onlyName = ([pattern, ...others]: readonly string[]): string | undefined =>
  others.length > 0 || pattern?.endsWith('*') ? undefined : pattern
