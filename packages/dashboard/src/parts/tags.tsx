import { HostileText } from '../ui/hostile-text.tsx'
import css from './tags.module.css'

export function Tags({ tags, max = tags.length }: { tags: readonly string[]; max?: number }) {
  if (tags.length === 0) return null
  return (
    <span className={`tags ${css.tags}`}>
      {tags.slice(0, max).map((tag) => (
        <span key={tag} className={css.tag}>
          <HostileText text={tag} line max={40} />
        </span>
      ))}
      {tags.length > max && <span className="quiet">+{tags.length - max}</span>}
    </span>
  )
}
