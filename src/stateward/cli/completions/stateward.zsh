#compdef stateward
# Completion of stateward in zsh: the program itself says what may follow.
_stateward() {
    local line
    local -a offered
    for line in "${(@f)$($words[1] __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
        case $line in
            :files) _files ;;
            :folders) _files -/ ;;
            ?*) offered+=("${${line//:/\\:}/$'\t'/:}") ;;
        esac
    done
    (( ! $#offered )) || _describe -V stateward offered
}
if [[ $funcstack[1] == _stateward ]]; then _stateward "$@"; else compdef _stateward stateward; fi
