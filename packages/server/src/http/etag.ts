/** Whether the list contains the current tag or is `*`, by weak comparison (RFC 9110, section 13.1.2). */
export function matchesTag(given: string | undefined, etag: string): boolean {
  if (given === undefined) return false
  return given.split(',').some((tag) => tag.trim() === etag || tag.trim() === '*' || `W/${tag.trim()}` === etag)
}
