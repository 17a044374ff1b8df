# Completion of stateward in bash: the program itself says what may follow.
_stateward() {
    local part line words=() n=-1 rest=$COMP_LINE IFS=$'\n'
    for part in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do # bash splits words at : and =
        [[ $n -lt 0 || $rest == [[:space:]]* ]] && words[++n]=
        rest=${rest#"${rest%%[![:space:]]*}"}
        words[n]+=$part rest=${rest#"$part"}
    done
    local typed=${words[n]}
    local fixed=${typed%"${typed##*[:=]}"} # bash replaces only what comes after it
    COMPREPLY=()
    while read -r line; do
        case $line in
            :files) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "${typed#"$fixed"}")) ;;
            :folders) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -d -- "${typed#"$fixed"}")) ;;
            *) line=${line%%$'\t'*}; COMPREPLY+=("${line#"$fixed"}") ;;
        esac
    done < <("$1" __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _stateward stateward
