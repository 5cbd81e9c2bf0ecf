import { openEventWriter } from './database.ts'
import { eventBody } from './events.ts'
import { answerTasks } from './helper.ts'

/** Inserts batches for this many seconds into the file of a stopped service. */
export type DatabaseTask = { dataDir: string; seconds: number; batchSize: number; eventBytes: number }
export type DatabaseReply = { perSecond: number }

/** Measures the rate of the database: the time of the statements, without generating the rows. */
function measureInserts(task: DatabaseTask): DatabaseReply {
  const writer = openEventWriter(task.dataDir)
  const createdAt = Date.now()
  let insertMs = 0
  let rows = 0
  while (insertMs < task.seconds * 1000) {
    const batch = writer.encode(
      Array.from({ length: task.batchSize }, (_, n) => ({ ...eventBody(rows + n, task.eventBytes), createdAt })),
    )
    const startedAt = performance.now()
    writer.write(batch)
    insertMs += performance.now() - startedAt
    rows += task.batchSize
  }
  writer.close()
  return { perSecond: (rows / insertMs) * 1000 }
}

answerTasks(measureInserts)
