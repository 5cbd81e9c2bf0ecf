/** Whether `name` is what the pattern names: the name itself, or a prefix followed by `*`. */
export const matchesPattern = (pattern: string, name: string): boolean =>
  pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern
