/** Whether the pattern matches `name`. A pattern is a name, or a prefix followed by `*`. */
export const matchesPattern = (pattern: string, name: string): boolean =>
  pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern

/** Returns the only name that the patterns match; undefined if they may match none or several. */
export const onlyName = ([pattern, ...others]: readonly string[]): string | undefined =>
  others.length > 0 || pattern?.endsWith('*') ? undefined : pattern
