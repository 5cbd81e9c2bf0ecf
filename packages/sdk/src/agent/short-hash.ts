/**
 * Returns 7 letters and digits that distinguish names. Uses FNV-1a, because `node:crypto` takes long to load. Not for
 * secrets.
 */
export function shortHash(text: string): string {
  let hash = 0x811c9dc5
  for (let place = 0; place < text.length; place++) hash = Math.imul(hash ^ text.charCodeAt(place), 0x01000193)
  return (hash >>> 0).toString(36).padStart(7, '0')
}
