import { describe, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { killDuringHits, suspendingEnv } from '../decoy-suspensions.ts'
import { isExternal, needsOwnProcess, startService } from '../service.ts'

if (isExternal) process.stdout.write(`The suspensions under kills are left out: ${needsOwnProcess}\n`)

describe.skipIf(isExternal)('an automatic suspension', () => {
  test('is stored with its hit or not at all, however often the process is killed', async () => {
    const kills = effort(3, 60)
    const service = await startService({ env: suspendingEnv })
    let unanswered = 0
    for (let count = 1; count <= kills; count++) unanswered += await killDuringHits(service, 1 + ((count * 5) % 20))
    console.log(`decoy suspensions: ${kills} kills, ${unanswered} stored whose answer was lost, none in half`)
    await service.stop()
  })
})
