/** Reads a URL of the settings. The built-in error carries the whole text, which is secret; this one says only what is wrong. */
export function receiverUrl(text: string): URL {
  const url = URL.parse(text)
  if (url === null) throw new Error('settings.url is not a valid URL.')
  return url
}

/** The host for lists: everything else in a URL may be secret. */
export const receiverHost = ({ url }: { url: string }): string => receiverUrl(url).host
