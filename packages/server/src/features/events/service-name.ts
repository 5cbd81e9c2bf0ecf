import { serviceSource } from '@wardline/contract'

const between = '[^\\p{L}\\p{N}]*'
const serviceName = new RegExp(`^${between}${[...serviceSource].join(between)}${between}$`, 'iu')
const beyondAscii = /[^ -~]/
/** Some letters are among them, such as the fillers of Hangul. */
const invisible = /\p{Default_Ignorable_Code_Point}+/gu

/**
 * Whether people could take a source for the service's own name: in any case, with spaces, marks or invisible
 * characters between, in full-width or accented letters. Letters of other scripts are not compared: what a reader may
 * rely on is `by_service`.
 */
export const isServiceName = (source: string): boolean =>
  // Every event comes by here: most sources fail at their first letter.
  serviceName.test(beyondAscii.test(source) ? source.normalize('NFKD').replace(invisible, '') : source)
