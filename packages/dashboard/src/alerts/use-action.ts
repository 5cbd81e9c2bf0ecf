import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { sentenceOf } from '../service/client.ts'

interface Outcome {
  text: string
  isFault: boolean
}

/** Something that a person asks for: busy while it runs, then one sentence that says what came of it. */
export function useAction(changes: 'alerts' | 'channels' | 'routing') {
  const client = useQueryClient()
  const [isBusy, setBusy] = useState(false)
  const [outcome, setOutcome] = useState<Outcome>()

  /** Resolves with whether it succeeded. What it is given is kept nowhere: it may hold secrets. */
  async function run(work: () => Promise<string>): Promise<boolean> {
    setBusy(true)
    setOutcome(undefined)
    let isFault = false
    try {
      setOutcome({ text: await work(), isFault })
    } catch (fault) {
      isFault = true
      setOutcome({ text: sentenceOf(fault), isFault })
    }
    setBusy(false)
    // Also after a failure: another operator may have been faster.
    await client.invalidateQueries({ queryKey: [changes] })
    return !isFault
  }
  return { isBusy, outcome, run }
}
