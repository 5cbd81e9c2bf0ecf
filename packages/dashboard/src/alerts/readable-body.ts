import type { MessageContent } from '@wardline/contract'

/** Splits a body into lines. JSON gets one line per field; line breaks within its texts stay escaped. */
export function readableBody({
  body,
  content_type,
  cut,
}: Pick<MessageContent, 'body' | 'content_type' | 'cut'>): string[] {
  if (cut || !content_type.includes('json')) return body.split('\n')
  try {
    return JSON.stringify(JSON.parse(body), null, 2).split('\n')
  } catch {
    return body.split('\n')
  }
}
