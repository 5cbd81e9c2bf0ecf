import { counted } from '@wardline/text/counted'
import { eachOf } from '../data/each-of.ts'

/**
 * Changes several alerts, or what `noun` names, each with a separate request. Resolves with `done` when all succeeded; otherwise rejects with
 * the number that did and the first error.
 */
export async function changeAll<Item>(
  items: readonly Item[],
  done: string,
  change: (item: Item) => Promise<unknown>,
  noun = 'alert',
): Promise<string> {
  const faults: Error[] = []
  await eachOf(items, async (item) => {
    await change(item).catch((fault: Error) => void faults.push(fault))
  })
  const changed = items.length - faults.length
  const [first] = faults
  if (!first) return `${counted(changed, noun)} ${done}.`
  throw new Error(
    items.length === 1
      ? first.message
      : `${changed} of ${counted(items.length, noun)} ${done}; the others failed: ${first.message}`,
  )
}
