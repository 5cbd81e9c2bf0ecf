/** Returns a text as JSON that YAML reads the same way: YAML has escapes for some characters that JSON leaves as they are. */
export const quoteYaml = (text: string): string =>
  JSON.stringify(text).replace(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

/** Returns the value of a rule that matches this text only: `*` and `?` are wildcards there. */
export const escapeWildcards = (text: string): string => text.replace(/[*?\\]/g, '\\$&')
