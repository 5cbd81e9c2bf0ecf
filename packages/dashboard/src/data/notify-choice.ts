import { readStored, store } from './storage.ts'

/** For which alerts a browser shows notifications to a key or person. */
export interface NotifyChoice {
  /** Those assigned to them. */
  assigned: boolean
  /** Those on agents with one of these tags of operators. */
  tags: string[]
}

/** In the browser, which also keeps the permission to show them: on another device both are asked for again. */
const nameOf = (keyId: string) => `wardline.notify.${keyId}`

export function readNotifyChoice(keyId: string): NotifyChoice {
  try {
    const { assigned, tags } = JSON.parse(readStored(nameOf(keyId)) ?? '{}')
    return { assigned: assigned === true, tags: Array.isArray(tags) ? tags.map(String) : [] }
  } catch {
    return { assigned: false, tags: [] }
  }
}

export const isNotified = ({ assigned, tags }: NotifyChoice): boolean => assigned || tags.length > 0

export const storeNotifyChoice = (keyId: string, choice: NotifyChoice): void =>
  store(nameOf(keyId), isNotified(choice) ? JSON.stringify(choice) : undefined)
