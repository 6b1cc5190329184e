package dev.klamm.checkpoints;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system without its native library and without forks. Hadoop forks `stat`, `ls`, `chmod` or
 * `readlink` for each status, permission and link, some forty times per micro-batch. This class asks the JVM instead.
 */
class JvmLocalFileSystem extends RawLocalFileSystem {
    private static final PosixFilePermission[] FROM_THE_RIGHT = {
        PosixFilePermission.OTHERS_EXECUTE, PosixFilePermission.OTHERS_WRITE, PosixFilePermission.OTHERS_READ,
        PosixFilePermission.GROUP_EXECUTE, PosixFilePermission.GROUP_WRITE, PosixFilePermission.GROUP_READ,
        PosixFilePermission.OWNER_EXECUTE, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_READ,
    };

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        return status(path);
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
        return Files.isSymbolicLink(file(path)) ? super.getFileLinkStatus(path) : status(path);
    }

    @Override
    public Path getLinkTarget(Path path) throws IOException {
        return Files.isSymbolicLink(file(path)) ? super.getLinkTarget(path) : status(path).getPath();
    }

    /** Sets the nine permission bits by java.nio. Uses Hadoop's method for setuid, setgid and sticky, which java.nio
    lacks. */
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
        short mode = permission.toShort();
        if (mode >> FROM_THE_RIGHT.length != 0) {
            super.setPermission(path, permission);
            return;
        }
        Set<PosixFilePermission> granted = EnumSet.noneOf(PosixFilePermission.class);
        for (int bit = 0; bit < FROM_THE_RIGHT.length; bit++) {
            if ((mode >> bit & 1) != 0) granted.add(FROM_THE_RIGHT[bit]);
        }
        try {
            Files.setPosixFilePermissions(file(path), granted);
        } catch (NoSuchFileException missing) {
            throw notFound(path, missing);
        }
    }

    private FileStatus status(Path path) throws IOException {
        PosixFileAttributes attributes;
        try {
            attributes = Files.readAttributes(file(path), PosixFileAttributes.class);
        } catch (NoSuchFileException missing) {
            throw notFound(path, missing);
        }
        short mode = 0;
        for (int bit = 0; bit < FROM_THE_RIGHT.length; bit++) {
            if (attributes.permissions().contains(FROM_THE_RIGHT[bit])) mode |= (short) (1 << bit);
        }
        return new FileStatus(
            attributes.size(),
            attributes.isDirectory(),
            1,
            getDefaultBlockSize(path),
            attributes.lastModifiedTime().toMillis(),
            attributes.lastAccessTime().toMillis(),
            new FsPermission(mode),
            attributes.owner().getName(),
            attributes.group().getName(),
            makeQualified(path));
    }

    private java.nio.file.Path file(Path path) {
        return pathToFile(path).toPath();
    }

    private static FileNotFoundException notFound(Path path, NoSuchFileException cause) {
        FileNotFoundException error = new FileNotFoundException("File " + path + " does not exist");
        error.initCause(cause);
        return error;
    }
}
